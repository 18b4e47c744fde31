-- A chat request of about 1 KiB, streamed.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local head = '{"model":"base","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"'
local tail = '"}]}'
wrk.body = head .. string.rep("word ", (1024 - #head - #tail) / 5) .. tail

-- A chat request of about SIZE bytes, not streamed.
local size = tonumber(os.getenv("SIZE"))
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local head = '{"model":"base","max_tokens":16,"messages":[{"role":"user","content":"'
local tail = '"}]}'
wrk.body = head .. string.rep("word ", (size - #head - #tail) / 5) .. tail

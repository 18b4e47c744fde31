// The dashboard in a real Chromium, before the real binary: `make test-page`, or `node tests/dashboard/run.mjs BINARY [PICTURE]`.
//
// Starts the demo on free ports, drives the page, and ends all it started. With a second argument it also takes the README's
// picture. Environment: CHROMIUM (default /usr/bin/chromium), PLAYWRIGHT (folder that holds node_modules/playwright-core),
// PAGE_FROM_DISK (scripts and styles from src/ and not from the binary, for work on the page).

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { createRequire } from "node:module";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [binary = "target/debug/pointsman", picture] = process.argv.slice(2);
const require = createRequire(join(process.env.PLAYWRIGHT ?? process.cwd(), "here.js"));
const { chromium } = require("playwright-core");
const DEADLINE_MS = 20_000;
const HOSTILE = `<img src=x onerror="window.stung=1">`;

const started = [];
async function run(args) {
  const child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => { log += text; });
  const it = { child, log: () => log };
  started.push(it);
  return it;
}

async function stop({ child }) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

async function eventually(what, holds) {
  for (const end = Date.now() + DEADLINE_MS; Date.now() < end; await new Promise((go) => setTimeout(go, 50)))
    if (await holds().catch(() => false)) return;
  assert.fail(`not in time: ${what}`);
}

const folder = await mkdtemp(join(tmpdir(), "pointsman-page-"));
let browser;

async function engine(name, loadMs) {
  const port = await freePort();
  const it = await run(["engine", "--port", `${port}`, "--name", name, "--model", "qwen", "--adapter-load-ms", `${loadMs}`]);
  await eventually(`${name} answers`, async () => (await fetch(`http://127.0.0.1:${port}/health`)).ok);
  return { ...it, name: `127.0.0.1:${port}` };
}

/** Pointsman before three engines of their own, one of whose adapters has a name that wants to be HTML. */
async function fleet(names = ["sql", "legal", "medical", "poems", HOSTILE], loadMs = 1200) {
  const engines = [await engine("r1", loadMs), await engine("r2", loadMs), await engine("r3", loadMs)];
  const [clients, admin] = [await freePort(), await freePort()];
  const adapters = names.map((name, at) => ({ name, path: `standin:a${at}` }));
  const config = {
    server: { listen: `127.0.0.1:${clients}`, admin_listen: `127.0.0.1:${admin}` },
    models: [{
      name: "qwen", engine: "vllm", max_loaded_adapters: 2, adapters,
      pools: [{ name: "edge", replicas: engines.map(({ name }) => ({ url: `http://${name}` })) }],
    }],
  };
  const file = join(folder, "pointsman.yaml");
  await writeFile(file, JSON.stringify(config));
  const pointsman = await run(["serve", "-c", file]);
  const url = `http://127.0.0.1:${admin}`;
  await eventually("Pointsman is ready", async () => (await fetch(`${url}/readyz`)).ok);
  return { engines, url, pointsman, clients: `http://127.0.0.1:${clients}` };
}

async function ask(clients, model, tokens) {
  const body = JSON.stringify({ model, stream: true, stream_options: { include_usage: true }, max_tokens: tokens, ignore_eos: true, session_id: model, messages: [{ role: "user", content: "Hi" }] });
  const answer = await fetch(`${clients}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body });
  await answer.text();
}

/** Requests until `end` is called: the base model and two adapters at a time. */
function traffic(clients, models) {
  let on = true;
  const talk = async (model) => { while (on) await ask(clients, model, 30).catch(() => new Promise((go) => setTimeout(go, 100))); };
  const all = models.map(talk);
  return async () => { on = false; await Promise.all(all); };
}

async function open(url, width, dark = false) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: dark ? "dark" : "light", deviceScaleFactor: 1 });
  const page = await context.newPage();
  const faults = [];
  page.setDefaultTimeout(DEADLINE_MS);
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) faults.push(message.text()); if (process.env.PAGE_FROM_DISK) console.log(`  ${message.text()}`); });
  page.on("pageerror", (error) => faults.push(`${error}`));
  page.on("request", (request) => { if (!request.url().startsWith(url) && !request.url().startsWith("data:")) faults.push(`asks ${request.url()}`); });
  if (process.env.PAGE_FROM_DISK)
    for (const name of ["page.css", "page.js", "charts.js"])
      await page.route(`${url}/${name}`, (route) => route.fulfill({ path: `src/admin/page/${name}` }));
  await page.goto(url);
  return { page, faults };
}

const cases = {
  async "loads, updates live, shows the map, and takes no name for HTML"({ url, clients }) {
    const { page, faults } = await open(url, 1280);
    await page.waitForSelector("#contact.good");
    assert.equal(await page.locator(".replica").count(), 3);
    assert.equal(await page.locator("tbody tr").count(), 5);
    const sent = async () => (await page.locator(".replica > .note").allTextContents()).map((text) => +text.match(/([\d.]+k?) sent/)[1]).reduce((a, b) => a + b);
    const before = await sent();
    const end = traffic(clients, ["qwen", "sql", "legal", HOSTILE]);
    await page.waitForSelector('tbody [data-cell="loading"]');
    await page.waitForSelector('tbody [data-cell="leased"]');
    await eventually("the counts rise", async () => await sent() > before);
    await eventually("the throughput rises", async () => parseFloat(await page.locator("#tile-throughput .value").innerText()) > 0);
    await eventually("the first token has a median", async () => /\d ms/.test(await page.locator("#tile-first-token .value").innerText()));
    await page.waitForSelector(".decision[open] .candidate .bar");
    await eventually("the hostile name is told as text", async () => (await page.locator("tbody th").allTextContents()).includes(HOSTILE));
    await end();
    await page.waitForSelector('tbody [data-cell="idle"]');
    assert.equal(await page.evaluate(() => window.stung), undefined);
    assert.equal(await page.locator("main img").count(), 0);
    assert.deepEqual(faults, []);
    await page.context().close();
  },

  async "what the reader has opened stays open"({ url, clients }) {
    await ask(clients, "qwen", 3);
    const { page } = await open(url, 1280);
    const last = page.locator(".decision").last();
    await last.waitFor();
    const number = await last.getAttribute("data-number");
    const one = page.locator(`.decision[data-number="${number}"]`);
    if (await one.getAttribute("open") === null) await one.locator("summary").click();
    else await page.locator(".decision").first().locator("summary").click();
    const before = await page.locator("#version").evaluate(() => performance.now());
    await page.waitForFunction((then) => performance.now() - then > 2500, before);
    assert.notEqual(await one.getAttribute("open"), null);
    await page.context().close();
  },

  async "a phone needs no horizontal scroll, in light and dark"({ url }) {
    for (const dark of [false, true]) {
      const { page, faults } = await open(url, 360, dark);
      await page.waitForSelector(".replica");
      const [scroll, width] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
      assert.ok(scroll <= width, `${scroll} > ${width}`);
      const paper = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      const bright = paper.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0) > 380;
      assert.equal(bright, !dark, paper);
      assert.deepEqual(faults, []);
      await page.context().close();
    }
  },

  async "a killed replica shows within 2 s, and so does an error"({ url, clients, engines }) {
    const { page, faults } = await open(url, 1280);
    await page.waitForSelector(`.replica[data-replica="${engines[2].name}"][data-state="up"]`);
    const killed = Date.now();
    await stop(engines[2]);
    await page.waitForSelector(`.replica[data-replica="${engines[2].name}"][data-state="down"]`, { timeout: DEADLINE_MS });
    const took = Date.now() - killed;
    assert.ok(took <= 2000, `it took ${took} ms`);
    console.log(`  shown after ${took} ms, without traffic`);
    assert.equal(await page.locator(".error").count(), 0);
    for (const { name } of engines.slice(0, 2))
      await fetch(`http://${name}/standin/misbehave`, { method: "POST", body: JSON.stringify({ kind: "answer", status: 503, for_ms: 1500 }) });
    await ask(clients, "qwen", 3);
    await page.locator(".error .tag", { hasText: /replica_failed|engine_error/ }).first().waitFor();
    await eventually("the tile counts it", async () => parseInt(await page.locator("#tile-trouble .value").innerText()) > 0);
    assert.deepEqual(faults, []);
    await page.context().close();
  },

  async "it says so when Pointsman is gone"({ url, pointsman }) {
    const { page } = await open(url, 1280);
    await page.waitForSelector("#contact.good");
    await stop(pointsman);
    await page.waitForSelector("#contact.bad");
    assert.match(await page.locator("#contact").innerText(), /no contact since/);
    await page.context().close();
  },
};

async function takePicture(file) {
  const names = ["sql", "legal", "medical", "support-de", "support-fr", "poems", "tickets", "code-review"];
  const { url, clients } = await fleet(names, 3000);
  let on = true;
  const talk = async (model) => { while (on) await ask(clients, model(), 20 + Math.floor(Math.random() * 60)).catch(() => {}); };
  const some = (list) => () => list[Math.floor(Math.random() * list.length)];
  const all = [some(["qwen"]), some(["qwen"]), some(["qwen"]), some(["sql"]), some(["sql", "legal"]), some(["medical"]), some(names), some(["qwen", ...names])].map(talk);
  const { page } = await open(url, 1180);
  await page.setViewportSize({ width: 1180, height: 1180 });
  await page.waitForTimeout(30_000);
  await page.waitForSelector('tbody [data-cell="loading"]');
  await page.screenshot({ path: file });
  on = false;
  await Promise.all(all);
}

let failed = 0;
try {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  if (picture) await takePicture(picture);
  else {
    const world = await fleet();
    for (const [name, test] of Object.entries(cases)) {
      try {
        await test(world);
        console.log(`ok      ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAILED  ${name}\n${error.stack}`);
        for (const context of browser.contexts()) await context.close();
      }
    }
    if (failed) console.log(world.pointsman.log());
  }
} finally {
  await browser?.close();
  for (const it of started) await stop(it);
  await rm(folder, { recursive: true });
}
process.exitCode = failed ? 1 : 0;

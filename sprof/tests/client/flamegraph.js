// Opens a flame graph in Chromium, searches, zooms and goes back; prints what the page shows after each, as JSON.
// node flamegraph.js FILE.svg SEARCH FUNCTION [FOLDED.svg, whose third row is of several functions] [FOLDER for screenshots]
const { chromium } = require("playwright-core");
const [file, search, zoom, folded, shots] = process.argv.slice(2);
// As long as PATIENCE in support/run.rs: a browser on a busy machine may take longer than Playwright's 30 s to start.
const PATIENCE_MS = 120_000;

(async () => {
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: PATIENCE_MS });
  const page = await browser.newPage({ viewport: { width: 1300, height: 700 } });
  page.setDefaultTimeout(PATIENCE_MS);
  const errors = [], requests = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto("file://" + file);
  const shown = () => page.evaluate(() => {
    const frames = [...document.querySelectorAll("#frames > g")];
    const name = (g) => g.querySelector("title").textContent.replace(/ \([^()]*\)$/, "");
    const isWide = (g) => g.querySelector("rect").getAttribute("width") === "100%";
    const visible = frames.filter((g) => !g.classList.contains("hidden"));
    return {
      frames: visible.length,
      wide: visible.filter(isWide).map(name),
      found: [...new Set(frames.filter((g) => g.classList.contains("found")).map(name))],
      matched: document.getElementById("matched").textContent,
      hash: location.hash,
    };
  });
  const shot = (name) => shots && page.screenshot({ path: `${shots}/${name}.png` });
  const answers = { start: await shown() };
  await shot("start");
  await page.keyboard.press("/");
  await page.keyboard.type(search);
  await page.keyboard.press("Enter");
  answers.searched = await shown();
  await shot("searched");
  const target = await page.evaluateHandle((zoom) => {
    const named = [...document.querySelectorAll("#frames > g")].filter((g) => g.querySelector("title").textContent.startsWith(zoom + " ("));
    const width = (g) => g.getBoundingClientRect().width;
    return named.sort((a, b) => width(b) - width(a))[0];
  }, zoom);
  await target.asElement().click();
  answers.zoomed = await shown();
  await shot("zoomed");
  const address = page.url();
  await page.keyboard.press("Escape");
  answers.reset = await shown();
  const again = await browser.newPage({ viewport: { width: 1300, height: 700 }, colorScheme: "dark" });
  again.setDefaultTimeout(PATIENCE_MS);
  await again.goto(address);
  if (shots) await again.screenshot({ path: `${shots}/dark.png` });
  answers.linked = await again.evaluate(() => document.getElementById("matched").textContent);
  answers.errors = errors;
  answers.requests = requests.length;
  if (folded) {
    await page.goto("file://" + folded);
    answers.folded = await shown();
    await (await page.$("#frames > g:nth-child(3)")).click();
    answers.opened = await shown();
    await shot("opened");
    await page.keyboard.press("Escape");
    answers.closed = await shown();
  }
  console.log(JSON.stringify(answers));
  await browser.close();
})().catch((error) => { console.error(error); process.exit(1); });

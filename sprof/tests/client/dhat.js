// Opens a file in valgrind's viewer of DHAT files, in Chromium, and prints what the page then says.
// node dhat.js DH_VIEW.html FILE [SCREENSHOT.png]
const { chromium } = require("playwright-core");
const [viewer, file, screenshot] = process.argv.slice(2);
// As long as PATIENCE in support/run.rs.
const PATIENCE_MS = 120_000;

(async () => {
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: PATIENCE_MS });
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => console.log("error: " + error.message));
  await page.goto("file://" + viewer);
  await page.setInputFiles("input[type=file]", file);
  await page.waitForFunction(() => /PP 1|error|Error/.test(document.body.innerText));
  console.log(await page.evaluate(() => document.body.innerText));
  if (screenshot) await page.screenshot({ path: screenshot, fullPage: true });
  await browser.close();
})();

// Opens pages of the viewer in Chromium, one after another, does what the tasks say, and prints what is shown, as JSON.
// node viewer.js TASKS.json; a task is {url, steps, raw?, patient?, width?, height?, dark?}, a step [what, argument].
const { chromium } = require("playwright-core");
const fs = require("fs");
const tasks = JSON.parse(fs.readFileSync(process.argv[2]));
// As long as PATIENCE in support/run.rs: a browser on a busy machine may take longer than Playwright's 30 s to start.
const PATIENCE_MS = 120_000;

/** What the page shows now. */
const shown = () => {
  const text = (element) => element?.textContent ?? "";
  const rows = (list) =>
    [...list.querySelectorAll(".list-body .list-row")]
      .sort((a, b) => Number(a.dataset.row) - Number(b.dataset.row))
      .map((row) => ({
        row: Number(row.dataset.row),
        level: Number(row.getAttribute("aria-level") ?? 0),
        open: row.getAttribute("aria-expanded"),
        name: row.querySelector(".name")?.dataset.name ?? text(row.querySelector(".text, mark")),
        short: text(row.querySelector(".name .text, .name mark")),
        text: text(row.lastElementChild),
        line: text(row.children[2]),
        cells: [...row.children].map(text),
        isFound: row.querySelector("mark") !== null,
        isCurrent: row.getAttribute("aria-selected") === "true",
        sides: JSON.parse(row.dataset.sides ?? "null"),
        sure: JSON.parse(row.dataset.sure ?? "null"),
        own: Number(row.dataset.own ?? 0),
        total: Number(row.dataset.total ?? 0),
      }));
  const sum = document.querySelector(".sum");
  const canvas = document.querySelector("#panel canvas");
  return {
    tab: document.getElementById("panel").dataset.tab,
    title: document.title,
    program: text(document.getElementById("program")),
    headline: text(document.getElementById("headline")),
    head: text(document.getElementById("recorded")),
    quality: text(document.getElementById("quality-line")),
    qualityState: document.getElementById("quality").dataset.state,
    qualityRows: [...document.querySelectorAll("#quality-rows dt")].map(text),
    kinds: [...document.getElementById("kind").options].map(text),
    weight: Number(sum.dataset.weight),
    samples: Number(sum.dataset.samples),
    matched: Number(sum.dataset.matched),
    sum: text(sum),
    crumbs: [...document.querySelectorAll(".crumb")].map(text),
    lists: [...document.querySelectorAll("#panel .list")].map(rows),
    zoomed: document.querySelector(".flame-view")?.dataset.zoomed ?? null,
    part: document.querySelector(".flame-view")?.dataset.part ?? null,
    folded: Number(document.querySelector(".flame-view")?.dataset.folded ?? 0),
    hint: text(document.getElementById("hint")),
    range: [...["from", "to"]].map((end) => Number(document.getElementById("range").dataset[end])),
    labels: [...document.querySelectorAll(".row-label")].map((row) => [row.className, text(row.querySelector(".text")), row.getAttribute("aria-selected")]),
    focus: document.activeElement?.id || document.activeElement?.className || "",
    pixels: canvas ? canvas.width * canvas.height : 0,
    overflow: document.documentElement.scrollWidth - innerWidth,
    below: document.documentElement.scrollHeight - innerHeight,
    note: text(document.querySelector("#panel .legend, #panel .empty")),
  };
};

/** Violations of the Web Content Accessibility Guidelines that axe-core calls serious or critical, and how many rules passed. */
const axe = async () => {
  const { violations, passes } = await window.axe.run(document, { resultTypes: ["violations"] });
  const worst = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  return { passed: passes.length, worst: worst.map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + " " + node.failureSummary)]) };
};

(async () => {
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: PATIENCE_MS });
  // A page of its own for each task would take three times as long. A blank one in between ends what the last task opened.
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  let answer;
  page.on("pageerror", (error) => answer.errors.push(error.message));
  page.on("console", (message) => answer.errors.push(message.text()));
  page.on("request", (request) => answer.requests.push(request.method() + " " + request.url()));
  page.on("dialog", (dialog) => answer.errors.push("dialog " + dialog.message()) && dialog.dismiss());
  /** Takes a step in the page, and notes what it shows. */
  const take = async (what, argument, task) => {
    if (what === "show") answer.shown.push(await page.evaluate(shown));
    else if (what === "key") for (const key of argument.split(" ")) await page.keyboard.press(key);
    else if (what === "type") await page.keyboard.type(argument);
    else if (what === "click") await page.click(argument);
    else if (what === "kind") {
      const labels = await page.$$eval("#kind option", (options) => options.map((option) => option.textContent));
      if (!labels.includes(argument)) throw new Error(`${task.url} counts ${labels}, not ${argument}`);
      await page.selectOption("#kind", { label: argument });
    }
    else if (what === "inside") await page.selectOption("#inside", argument);
    else if (what === "focus") await page.focus(argument);
    else if (what === "eval") answer.shown.push(await page.evaluate(argument));
    else if (what === "until") await page.waitForSelector(argument);
    else if (what === "axe") {
      // Not as an element of the page: its policy forbids other scripts.
      // Half a megabyte, which a page parses once.
      if (!(await page.evaluate("'axe' in window"))) await page.evaluate(fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
      answer.shown.push(await page.evaluate(axe));
    }
    else if (what === "url") await page.waitForURL(argument);
    else if (what === "reload") {
      await page.reload();
      await page.waitForFunction(() => document.body.dataset.ready);
    } else if (what === "back") await page.goBack();
    else if (what === "shot") await page.screenshot({ path: argument });
    else if (what === "drag") {
      // Shares of the timeline's width.
      const box = await (await page.$("#rows-area")).boundingBox();
      const at = (share) => [box.x + share * box.width, box.y + 12];
      await page.mouse.move(...at(argument[0]));
      await page.mouse.down();
      await page.mouse.move(...at((argument[0] + argument[1]) / 2));
      await page.mouse.move(...at(argument[1]));
      await page.mouse.up();
    } else throw new Error("no step " + what);
  };
  const answers = [];
  for (const task of tasks) {
    answer = { shown: [], errors: [], requests: [] };
    await page.setViewportSize({ width: task.width ?? 1300, height: task.height ?? 900 });
    await page.emulateMedia({ colorScheme: task.dark ? "dark" : "light" });
    // Deadlines of the page never pass, in later tasks either: the host may stop the machine for longer.
    if (task.patient) await page.addInitScript(() => (window.setTimeout = () => 0));
    await page.goto(task.url);
    if (!task.raw) {
      await page.waitForFunction(() => document.body.dataset.ready);
      answer.readyMs = await page.evaluate(() => performance.now());
    }
    for (const [what, argument] of task.steps) {
      try {
        await take(what, argument, task);
      } catch (error) {
        throw new Error(`${task.url}: step ${JSON.stringify([what, argument])}`, { cause: error });
      }
    }
    answers.push(answer);
    await page.goto("about:blank");
  }
  console.log(JSON.stringify(answers));
  await browser.close();
})().catch((error) => { console.error(error); process.exit(1); });

// Unpacks the page's code and data. What follows is permitted by its hash: see the policy in the head.
(async () => {
  const unpacked = async (bytes) =>
    new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  const bytesOf = (id) => {
    const text = document.getElementById(id).textContent;
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
    return bytes;
  };
  const status = document.getElementById("loading");
  try {
    if (!self.DecompressionStream) throw new Error("this browser is too old: it has no DecompressionStream");
    const data = document.getElementById("data")
      ? unpacked(bytesOf("data"))
      : fetch("data", { cache: "no-store" }).then(async (answer) => {
          if (!answer.ok) throw new Error((await answer.json()).error);
          return unpacked(await answer.arrayBuffer());
        });
    const [style, script] = new TextDecoder().decode(await unpacked(bytesOf("code"))).split("\0");
    const add = (name, text) => {
      const element = document.createElement(name);
      element.textContent = text;
      document.head.append(element);
    };
    window.sprofData = await data;
    // The script chooses the colours: they come at once.
    add("style", style);
    add("script", script);
  } catch (error) {
    status.textContent = "The profile can't be shown: " + error.message;
  }
})();

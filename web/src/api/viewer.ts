const KEY = "rigs.viewer";

function draw(): string {
  // Not randomUUID: a page that came over plain HTTP does not have it.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}

function kept(): string {
  try {
    const known = sessionStorage.getItem(KEY);
    if (known && /^[0-9a-f]{32}$/.test(known)) return known;
    const id = draw();
    sessionStorage.setItem(KEY, id);
    return id;
  } catch {
    return draw(); // storage may be forbidden: the name then lasts as long as the page
  }
}

/**
 * The name of this tab towards the server. It goes with the event stream and with taking control, so that the server knows
 * when whoever holds control has gone. A reload keeps it; another tab has another.
 */
export const viewer: string = kept();

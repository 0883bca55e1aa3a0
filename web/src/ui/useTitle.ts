import { useEffect } from "react";

let title = "";
let badge = 0;
const show = () => {
  document.title = `${badge > 0 ? `(${badge}) ` : ""}${title ? `${title} · ` : ""}Rigs`;
};

export function useTitle(name: string): void {
  useEffect(() => {
    title = name;
    show();
  }, [name]);
}

/** setBadge puts a number before the title: how many requests wait, for whoever looks at another tab. */
export function setBadge(count: number): void {
  badge = count;
  show();
}

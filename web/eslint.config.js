import hooks from "eslint-plugin-react-hooks";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["dist", "node_modules", "test-results", "src/api/schema.ts"] },
  ...tseslint.configs.strict,
  { files: ["**/*.{ts,tsx}"], ...hooks.configs.flat["recommended-latest"] },
  {
    files: ["src/**/*.{ts,tsx}"],
    rules: {
      // Guests' words are text, always.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "text is rendered as text" },
        { selector: "MemberExpression[property.name=/^(innerHTML|outerHTML)$/]", message: "text is rendered as text" },
        { selector: "CallExpression[callee.property.name='insertAdjacentHTML']", message: "text is rendered as text" },
      ],
      "no-console": "error",
    },
  },
);

import { useMutation } from "@tanstack/react-query";
import { useId, useState } from "react";
import { Button } from "../ui/Button";

interface Props {
  label: string;
  placeholder: string;
  action: string;
  onSubmit: (name: string) => Promise<unknown>;
  onCancel?: () => void;
}

/** One field that names something new. What is wrong with a name is the server's to say. */
export function NameForm({ label, placeholder, action, onSubmit, onCancel }: Props) {
  const [name, setName] = useState("");
  const id = useId();
  const create = useMutation({ mutationFn: onSubmit });
  return (
    <form
      className="name-form"
      onSubmit={(e) => {
        e.preventDefault();
        if (!create.isPending && name.trim() !== "") create.mutate(name.trim());
      }}
      onKeyDown={(e) => {
        if (e.key === "Escape") {
          e.stopPropagation();
          onCancel?.();
        }
      }}
    >
      <label htmlFor={id} className="sr-only">
        {label}
      </label>
      <div className="field-row">
        <input
          id={id}
          className="input"
          value={name}
          placeholder={placeholder}
          onChange={(e) => {
            setName(e.target.value);
            create.reset();
          }}
          autoFocus
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          maxLength={80}
          aria-invalid={create.isError || undefined}
          aria-describedby={create.isError ? `${id}-error` : undefined}
        />
        <Button type="submit" look="primary" small busy={create.isPending}>
          {action}
        </Button>
      </div>
      {create.isError && (
        <p id={`${id}-error`} className="field-error" role="alert">
          {create.error.message}
        </p>
      )}
    </form>
  );
}

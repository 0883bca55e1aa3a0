package rig

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// Action is one act on a rig: a verb of its surface and what that verb takes. In
// JSON it is one object, {"verb": "read_file", "path": "…"}.
type Action struct {
	Verb *Verb
	Args Args // a pointer to the verb's own struct
}

// Args are what a verb takes. Check names the first field that cannot be.
type Args interface{ Check() error }

// Verb is what can be done on a surface. Everything that must know what a verb is
// reads it here: the chokepoint, the tools, the command line.
type Verb struct {
	Name    string
	Surface Surface
	// Class is what guardrails see in it.
	Class Class
	// Mutates says that it changes something in the rig: it is refused while
	// somebody else holds control. The others observe.
	Mutates bool
	Summary string
	Example string // the arguments of one use, as JSON
	// New returns the verb's arguments with their defaults.
	New func() Args
}

// Verbs lists the verbs of SPEC §5 that there are.
var Verbs = []*Verb{
	{
		Name: "exec", Surface: Terminal, Class: ProcessSpawn, Mutates: true, Summary: "Run a command to its end and return its output",
		Example: `{"shell": "git status --short", "cwd": "work"}`, New: func() Args { return new(ExecArgs) },
	},
	{
		Name: "read_file", Surface: Terminal, Class: EnclosureControl, Summary: "Read a file, or a piece of it",
		Example: `{"path": "work/main.go", "limit": 4096}`, New: func() Args { return new(ReadFileArgs) },
	},
	{
		Name: "write_file", Surface: Terminal, Class: EnclosureControl, Mutates: true, Summary: "Write a file whole, or append to it; missing directories are made",
		Example: `{"path": "work/notes.txt", "content": "hello\n"}`, New: func() Args { return new(WriteFileArgs) },
	},
	{
		Name: "list_dir", Surface: Terminal, Class: EnclosureControl, Summary: "List a directory",
		Example: `{"path": "work"}`, New: func() Args { return new(ListDirArgs) },
	},
	{
		Name: "screen", Surface: Terminal, Class: EnclosureControl, Summary: "Show what is visible in the open terminal",
		Example: `{}`, New: func() Args { return new(ScreenArgs) },
	},
}

// Limits of actions.
const (
	MaxActPath    = 4096    // bytes of a path
	MaxActContent = 1 << 20 // bytes of a file that one action reads or writes
	MaxActEntries = 5000    // entries of a directory
	MaxActTimeout = 3600    // seconds of a command
)

// ExecArgs are exec's. Exactly one of Argv and Shell is given.
type ExecArgs struct {
	Argv    []string `json:"argv,omitempty" maxItems:"4096" doc:"Program and arguments, without a shell"`
	Shell   string   `json:"shell,omitempty" doc:"A line for /bin/sh"`
	Cwd     string   `json:"cwd,omitempty" maxLength:"4096" doc:"Directory; default: the user's home"`
	Env     []string `json:"env,omitempty" maxItems:"512" doc:"NAME=value, added to the login environment"`
	Stdin   string   `json:"stdin,omitempty" doc:"Standard input; default: none"`
	Timeout float64  `json:"timeout,omitempty" minimum:"0.1" maximum:"3600" doc:"Seconds after which it is killed; default: 120"`
}

// DefaultExecTimeout is how many seconds a command has that names none.
const DefaultExecTimeout = 120

// ReadFileArgs are read_file's.
type ReadFileArgs struct {
	Path   string `json:"path" maxLength:"4096" doc:"Absolute, or relative to the user's home"`
	Offset int64  `json:"offset,omitempty" minimum:"0" doc:"First byte; default: 0"`
	Limit  int    `json:"limit,omitempty" minimum:"1" maximum:"1048576" doc:"Most bytes; default: 65536"`
}

// DefaultReadLimit is how many bytes read_file returns that names no limit.
const DefaultReadLimit = 64 << 10

// WriteFileArgs are write_file's.
type WriteFileArgs struct {
	Path     string `json:"path" maxLength:"4096" doc:"Absolute, or relative to the user's home"`
	Content  string `json:"content" doc:"At most 1 MB"`
	Encoding string `json:"encoding,omitempty" enum:"text,base64" doc:"Of content; default: text"`
	Mode     string `json:"mode,omitempty" pattern:"^0?[0-7]{3}$" doc:"Permissions in octal, such as 755; default: those of the file that is replaced, or 644"`
	Append   bool   `json:"append,omitempty" doc:"Add to the end instead of replacing the file"`
	data     []byte
}

// Data is what is to be written. It is there after Check.
func (a *WriteFileArgs) Data() []byte { return a.data }

// ListDirArgs are list_dir's.
type ListDirArgs struct {
	Path  string `json:"path,omitempty" maxLength:"4096" doc:"Absolute, or relative to the user's home; default: that"`
	Limit int    `json:"limit,omitempty" minimum:"1" maximum:"5000" doc:"Most entries; default: 500"`
}

// DefaultListLimit is how many entries list_dir returns that names no limit.
const DefaultListLimit = 500

// ScreenArgs are screen's.
type ScreenArgs struct {
	Session string `json:"session,omitempty" pattern:"^[a-z0-9-]{1,32}$" doc:"Terminal session; default: main, which is the page's"`
}

// DefaultSession is the terminal that people look at.
const DefaultSession = "main"

// Check implements Args.
func (a *ExecArgs) Check() error {
	switch {
	case len(a.Argv) == 0 && a.Shell == "":
		return FieldErrorf("argv", "exec: give argv or shell")
	case len(a.Argv) > 0 && a.Shell != "":
		return FieldErrorf("shell", "exec: give argv or shell, not both")
	case len(a.Argv) > 4096:
		return FieldErrorf("argv", "exec: %d arguments are too many: 4096 are the most", len(a.Argv))
	case len(a.Env) > 512:
		return FieldErrorf("env", "exec: %d variables are too many: 512 are the most", len(a.Env))
	case len(a.Argv) > 0 && a.Argv[0] == "":
		return FieldErrorf("argv", "exec: the program has no name")
	case math.IsNaN(a.Timeout) || a.Timeout != 0 && (a.Timeout < 0.1 || a.Timeout > MaxActTimeout):
		return FieldErrorf("timeout", "exec: timeout is %v: it must be from 0.1 to %d seconds", a.Timeout, MaxActTimeout)
	case len(a.Stdin) > MaxActContent:
		return FieldErrorf("stdin", "exec: stdin has %d bytes: %d are the most", len(a.Stdin), MaxActContent)
	}
	for i, e := range a.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			return FieldErrorf("env", "exec: env[%d] is not NAME=value", i)
		}
	}
	for i, s := range a.Argv {
		if strings.ContainsRune(s, 0) {
			return FieldErrorf("argv", "exec: argv[%d] holds a NUL", i)
		}
	}
	if strings.ContainsRune(a.Shell, 0) {
		return FieldErrorf("shell", "exec: shell holds a NUL")
	}
	return checkPath("cwd", a.Cwd, true)
}

// Check implements Args.
func (a *ReadFileArgs) Check() error {
	if err := checkPath("path", a.Path, false); err != nil {
		return err
	}
	if a.Offset < 0 {
		return FieldErrorf("offset", "offset is %d: it must not be negative", a.Offset)
	}
	return checkRange("limit", a.Limit, MaxActContent)
}

// Check implements Args.
func (a *WriteFileArgs) Check() error {
	if err := checkPath("path", a.Path, false); err != nil {
		return err
	}
	switch a.Encoding {
	case "", "text":
		a.data = []byte(a.Content)
	case "base64":
		b, err := base64.StdEncoding.Strict().DecodeString(a.Content)
		if err != nil {
			return FieldErrorf("content", "content is not base64: %w", err)
		}
		a.data = b
	default:
		return FieldErrorf("encoding", "encoding is %q: it must be text or base64", a.Encoding)
	}
	if len(a.data) > MaxActContent {
		return FieldErrorf("content", "content has %d bytes: %d are the most: write it in pieces with append, or copy the file in", len(a.data), MaxActContent)
	}
	_, err := a.Perm()
	return err
}

// Perm is the mode; 0 for none.
func (a *WriteFileArgs) Perm() (uint32, error) {
	if a.Mode == "" {
		return 0, nil
	}
	digits := a.Mode
	if len(digits) == 4 && digits[0] == '0' {
		digits = digits[1:]
	}
	if len(digits) != 3 || strings.Trim(digits, "01234567") != "" || digits == "000" {
		return 0, FieldErrorf("mode", "mode is %q: it must be three octal digits, such as 644, and let somebody in", a.Mode)
	}
	return uint32(digits[0]-'0')<<6 | uint32(digits[1]-'0')<<3 | uint32(digits[2]-'0'), nil
}

// Check implements Args.
func (a *ListDirArgs) Check() error {
	if err := checkPath("path", a.Path, true); err != nil {
		return err
	}
	return checkRange("limit", a.Limit, MaxActEntries)
}

// Check implements Args.
func (a *ScreenArgs) Check() error {
	if a.Session == "" {
		return nil
	}
	if len(a.Session) > 32 || strings.Trim(a.Session, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return FieldErrorf("session", "session is %q: it must be 1 to 32 of a-z 0-9 -", a.Session)
	}
	return nil
}

func checkPath(field, p string, optional bool) error {
	switch {
	case p == "" && !optional:
		return FieldErrorf(field, "%s is missing", field)
	case len(p) > MaxActPath:
		return FieldErrorf(field, "%s has %d bytes: %d are the most", field, len(p), MaxActPath)
	case strings.ContainsRune(p, 0):
		return FieldErrorf(field, "%s holds a NUL", field)
	}
	return nil
}

func checkRange(field string, n, most int) error {
	if n < 0 || n > most {
		return FieldErrorf(field, "%s is %d: it must be from 1 to %d", field, n, most)
	}
	return nil
}

// VerbsOf lists the verbs of a surface.
func VerbsOf(s Surface) []*Verb {
	var out []*Verb
	for _, v := range Verbs {
		if v.Surface == s {
			out = append(out, v)
		}
	}
	return out
}

// FindVerb returns a surface's verb of that name.
func FindVerb(s Surface, name string) (*Verb, error) {
	var names []string
	for _, v := range VerbsOf(s) {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	switch {
	case len(names) == 0:
		return nil, FieldErrorf("verb", "a %s has no verbs yet", s)
	case name == "":
		return nil, FieldErrorf("verb", "verb is missing: it is one of %s", strings.Join(names, ", "))
	}
	return nil, FieldErrorf("verb", "a %s has no verb %q: it has %s", s, name, strings.Join(names, ", "))
}

// ParseAction parses an action on a surface. It accepts what can be done and
// nothing else; an error names the field.
func ParseAction(s Surface, b []byte) (Action, error) {
	fields, err := object(b)
	if err != nil {
		return Action{}, err
	}
	name := ""
	if raw, ok := fields["verb"]; ok {
		if err := json.Unmarshal(raw, &name); err != nil {
			return Action{}, FieldErrorf("verb", "verb is not a string")
		}
	}
	delete(fields, "verb")
	v, err := FindVerb(s, name)
	if err != nil {
		return Action{}, err
	}
	return v.parse(fields)
}

// Parse parses the verb's arguments, an object.
func (v *Verb) Parse(b []byte) (Action, error) {
	fields, err := object(b)
	if err != nil {
		return Action{}, err
	}
	return v.parse(fields)
}

func (v *Verb) parse(fields map[string]json.RawMessage) (Action, error) {
	args := v.New()
	known := v.Fields()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		i := slices.IndexFunc(known, func(f Field) bool { return f.Name == name })
		if i < 0 {
			return Action{}, FieldErrorf(name, "%s takes no %q", v.Name, name)
		}
		f := known[i]
		if string(fields[name]) == "null" {
			return Action{}, FieldErrorf(name, "%s: %s is null: leave it out instead", v.Name, name)
		}
		if err := json.Unmarshal(fields[name], reflect.ValueOf(args).Elem().FieldByIndex(f.index).Addr().Interface()); err != nil {
			return Action{}, FieldErrorf(name, "%s: %s is not %s", v.Name, name, f.Kind)
		}
	}
	for _, f := range known {
		if _, ok := fields[f.Name]; f.Required && !ok {
			return Action{}, FieldErrorf(f.Name, "%s: %s is missing", v.Name, f.Name)
		}
	}
	return Action{v, args}, args.Check()
}

// Field is one argument of a verb.
type Field struct {
	Name     string
	Kind     string // in words: a string, a number …
	Doc      string
	Required bool
	Type     reflect.Type
	index    []int
}

// Fields lists what the verb takes, in order.
func (v *Verb) Fields() []Field {
	var out []Field
	t := reflect.TypeOf(v.New()).Elem()
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		kind := map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Slice: "an array of strings",
			reflect.Int: "a whole number", reflect.Int64: "a whole number", reflect.Float64: "a number"}[f.Type.Kind()]
		out = append(out, Field{name, kind, f.Tag.Get("doc"), !strings.Contains(opts, "omitempty"), f.Type, f.Index})
	}
	return out
}

// object splits a JSON object into its fields. A name that is there twice is an
// error, because who reads it otherwise would understand something else.
func object(b []byte) (map[string]json.RawMessage, error) {
	bad := func(err error) error { return Errorf(CodeInvalidRequest, "the action is not a JSON object: %w", err) }
	if !utf8.Valid(b) {
		return nil, bad(errors.New("it is not UTF-8"))
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, bad(cmpErr(err, "it does not begin with {"))
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, bad(cmpErr(err, "a name is missing"))
		}
		if _, twice := out[name]; twice {
			return nil, FieldErrorf(name, "%q is there twice", name)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, FieldErrorf(name, "%s: %w", name, err)
		}
		out[name] = raw
	}
	if _, err := d.Token(); err != nil {
		return nil, bad(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, bad(errors.New("there is more behind it"))
	}
	return out, nil
}

func cmpErr(err error, or string) error {
	if err != nil {
		return err
	}
	return errors.New(or)
}

// MarshalJSON is the one spelling of an action, which ParseAction reads.
func (a Action) MarshalJSON() ([]byte, error) {
	if a.Verb == nil {
		return nil, errors.New("an action without a verb")
	}
	verb, err := json.Marshal(struct {
		Verb string `json:"verb"`
	}{a.Verb.Name})
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(a.Args)
	if err != nil || string(args) == "{}" {
		return verb, err
	}
	return append(append(verb[:len(verb)-1], ','), args[1:]...), nil
}

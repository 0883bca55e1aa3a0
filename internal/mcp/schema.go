package mcp

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"rigs/internal/rig"
)

// schema is the JSON schema of an object.
type schema struct {
	Type                 string         `json:"type"`
	Properties           map[string]any `json:"properties"`
	Required             []string       `json:"required,omitempty"`
	AdditionalProperties bool           `json:"additionalProperties"`
	Examples             []any          `json:"examples,omitempty"`
}

// property is one field of an object.
type property struct {
	Type        string    `json:"type"`
	Items       *property `json:"items,omitempty"`
	Description string    `json:"description,omitempty"`
	Enum        []string  `json:"enum,omitempty"`
	Pattern     string    `json:"pattern,omitempty"`
	Minimum     *float64  `json:"minimum,omitempty"`
	Maximum     *float64  `json:"maximum,omitempty"`
	MaxLength   *int      `json:"maxLength,omitempty"`
	MaxItems    *int      `json:"maxItems,omitempty"`
	Default     any       `json:"default,omitempty"`
	Examples    []string  `json:"examples,omitempty"`
}

// properties describes what a verb takes, from the tags of its arguments, which
// the HTTP API is described from too.
func properties(v *rig.Verb) map[string]*property {
	out := map[string]*property{}
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v.New()).Elem()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			continue
		}
		p := &property{Description: f.Tag.Get("doc"), Pattern: f.Tag.Get("pattern"), Minimum: number(f.Tag.Get("minimum")), Maximum: number(f.Tag.Get("maximum")), MaxLength: whole(f.Tag.Get("maxLength")), MaxItems: whole(f.Tag.Get("maxItems"))}
		if e := f.Tag.Get("enum"); e != "" {
			p.Enum = strings.Split(e, ",")
		}
		p.Type = kinds[f.Type.Kind()]
		if p.Type == "array" {
			p.Items = &property{Type: kinds[f.Type.Elem().Kind()]}
		}
		out[toolName(name)] = p
	}
	return out
}

// inRange refuses numbers that the schema does not have. A verb takes its zero for
// one that was left out; here it was given.
func inRange(v *rig.Verb, fields map[string]json.RawMessage) error {
	for name, p := range properties(v) {
		var n float64
		raw, ok := fields[name]
		if !ok || string(raw) == "null" || json.Unmarshal(raw, &n) != nil {
			continue // what is no number, Parse refuses
		}
		switch {
		case p.Minimum != nil && n < *p.Minimum:
			return rig.FieldErrorf(name, "%s: %s is %v: the least is %v", v.Name, name, n, *p.Minimum)
		case p.Maximum != nil && n > *p.Maximum:
			return rig.FieldErrorf(name, "%s: %s is %v: the most is %v", v.Name, name, n, *p.Maximum)
		}
	}
	return nil
}

var kinds = map[reflect.Kind]string{reflect.String: "string", reflect.Bool: "boolean", reflect.Slice: "array", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number"}

func number(s string) *float64 {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return &f
	}
	return nil
}

func whole(s string) *int {
	if n, err := strconv.Atoi(s); err == nil {
		return &n
	}
	return nil
}

// schemaOf is the schema of a tool with one use.
func schemaOf(v *rig.Verb) schema {
	s := schema{Type: "object", Properties: map[string]any{}}
	for name, p := range properties(v) {
		s.Properties[name] = p
	}
	for _, f := range v.Fields() {
		if f.Required {
			s.Required = append(s.Required, f.Name)
		}
	}
	s.Examples = []any{json.RawMessage(v.Example)}
	return s
}

// rigProperty names a rig.
var rigProperty = &property{Type: "string", Description: "The rig: its id, a unique prefix of it, or SPACE/SURFACE[:ENGINE]", Examples: []string{"default/terminal"}}

// eitherOf are the verbs of which one of several arguments is needed.
var eitherOf = map[string]string{"exec": "argv or shell"}

// schemaOfVerbs is the schema of a tool whose action is one of verbs. A field
// says which actions take it, and which need it: in words, because models and
// clients cope with conditions in schemas less well.
func schemaOfVerbs(verbs []*rig.Verb) schema {
	s := schema{Type: "object", Properties: map[string]any{"rig": rigProperty}, Required: []string{"rig", "action"}}
	action := &property{Type: "string"}
	said := map[string][]string{} // name of a field: what it is, by verb
	for _, v := range verbs {
		action.Enum = append(action.Enum, v.Name)
		var needs []string
		for _, f := range v.Fields() {
			if f.Required {
				needs = append(needs, toolName(f.Name))
			}
		}
		action.Description += "\n" + v.Name + ": " + v.Summary
		if e := eitherOf[v.Name]; e != "" {
			action.Description += " (needs " + e + ")"
		} else if len(needs) > 0 {
			action.Description += " (needs " + strings.Join(needs, " and ") + ")"
		}
		for name, p := range properties(v) {
			by := v.Name
			if slices.Contains(needs, name) {
				by = "needed for " + by
			}
			said[name] = append(said[name], by+": "+p.Description)
			if _, ok := s.Properties[name]; !ok {
				s.Properties[name] = p
			} else if q, ok := s.Properties[name].(*property); ok { // what holds for both
				q.Minimum, q.Maximum, q.MaxLength, q.MaxItems, q.Enum, q.Pattern = nil, nil, nil, nil, nil, ""
			}
		}
		var example map[string]any
		if json.Unmarshal([]byte(v.Example), &example) == nil {
			maps.Copy(example, map[string]any{"rig": "default/" + string(v.Surface), "action": v.Name})
			s.Examples = append(s.Examples, example)
		}
	}
	action.Description = strings.TrimPrefix(action.Description, "\n")
	for name, docs := range said {
		if p, ok := s.Properties[name].(*property); ok {
			p.Description = strings.Join(docs, "\n")
			if len(docs) == len(verbs) && len(slices.Compact(slices.Clone(docs))) == 1 {
				p.Description = docs[0]
			}
		}
	}
	s.Properties["action"] = action
	return s
}

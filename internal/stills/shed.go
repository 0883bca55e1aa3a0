package stills

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"strings"

	"rigs/internal/rig"
)

const (
	// maxNesting bounds how deep content in content is looked into.
	maxNesting = 32
	// maxBlocks bounds how many messages and blocks are looked at.
	maxBlocks = 1 << 20
)

// Shed takes a conversation as JSON and returns it with all images but the
// newest keep replaced by a text block with their id and description, and how
// many were replaced. Every other byte stays as it is: order, white space,
// numbers, repeated keys and fields it does not know. Shedding again changes
// nothing.
//
// The conversation is a list of messages, oldest first, or an object with one
// in "messages" or "input" (a request's body). Images are blocks in the content
// of messages and, nested, of tool results and documents:
//
//	Anthropic          {"type":"image","source":{…}}
//	OpenAI, chat       {"type":"image_url","image_url":{"url":…}}
//	OpenAI, responses  {"type":"input_image","image_url":…}, also in outputs of functions
//	MCP                {"type":"image","data":…,"mimeType":…}
//
// Other fields of such a block (cache_control) stay on the text block. What a
// tool was called with is not content, and an OpenAI computer_screenshot, in
// whose place no text may stand, stays.
//
// A description is looked for beside the image: a line of a text block that is
// the image's Still.Line. Without one, the block says what the image itself
// tells.
func Shed(conversation []byte, keep int) (out []byte, shed int, err error) {
	if keep < 0 {
		return nil, 0, rig.FieldErrorf("keep", "keep %d images: give 0 or more", keep)
	}
	if !json.Valid(conversation) {
		var v json.RawMessage
		return nil, 0, rig.FieldErrorf("messages", "the conversation is no JSON: %w", json.Unmarshal(conversation, &v))
	}
	f := finder{b: conversation, lines: map[span]map[string]string{}}
	top := f.value(0)
	switch f.b[top.start] {
	case '[':
		f.list(top, 0)
	case '{':
		found := false
		f.each(top, func(key string, v span) {
			if (key == "messages" || key == "input") && f.b[v.start] == '[' {
				found = true
				f.list(v, 0)
			}
		})
		if !found {
			return nil, 0, rig.FieldErrorf("messages", `the conversation is an object without a list in "messages" or "input"`)
		}
	default:
		return nil, 0, rig.FieldErrorf("messages", "the conversation is neither a list of messages nor an object with one")
	}
	if f.seen > maxBlocks {
		return nil, 0, rig.Errorf(rig.CodeTooLarge, "the conversation has over %d messages and blocks", maxBlocks)
	}
	if len(f.images) <= keep {
		return conversation, 0, nil
	}
	old := f.images[:len(f.images)-keep]
	at := 0
	for _, im := range old {
		out = append(out, f.b[at:im.start]...)
		out = append(out, f.replacement(im)...)
		at = im.end
	}
	return append(out, f.b[at:]...), len(old), nil
}

// span is where a value stands in the conversation.
type span struct{ start, end int }

// found is an image block and the list that it is in.
type found struct {
	span
	list span
	kind string // the block's type
}

// finder walks valid JSON and notes images.
type finder struct {
	b      []byte
	images []found
	seen   int
	// lines are the descriptions beside the images of a list, by id.
	lines map[span]map[string]string
}

// list looks at the messages or blocks of an array.
func (f *finder) list(l span, depth int) {
	if depth > maxNesting || f.seen > maxBlocks {
		return
	}
	f.each(l, func(_ string, v span) {
		if f.seen++; f.b[v.start] != '{' || f.seen > maxBlocks {
			return
		}
		if kind := f.imageKind(v); kind != "" {
			f.images = append(f.images, found{v, l, kind})
			return
		}
		f.content(v, depth)
	})
}

// content looks into the parts of a message or block that hold blocks.
func (f *finder) content(v span, depth int) {
	f.each(v, func(key string, m span) {
		switch {
		case (key == "content" || key == "output") && f.b[m.start] == '[':
			f.list(m, depth+1)
		case key == "source" && f.b[m.start] == '{' && depth <= maxNesting: // a document's
			f.content(m, depth+1)
		}
	})
}

// imageKind is the type of an image block, "" of anything else.
func (f *finder) imageKind(v span) string {
	kind, has := "", map[string]bool{}
	f.each(v, func(key string, m span) {
		if key == "type" {
			kind = f.text(m)
		}
		has[key] = true
	})
	switch {
	case kind == "image" && (has["source"] || has["data"]):
	case kind == "image_url" && has["image_url"]:
	case kind == "input_image" && (has["image_url"] || has["file_id"]):
	default:
		return ""
	}
	return kind
}

// replacement is the text block that takes an image's place.
func (f *finder) replacement(im found) []byte {
	kind := "text"
	if im.kind == "input_image" {
		kind = "input_text"
	}
	var rest bytes.Buffer
	f.each(im.span, func(key string, m span) {
		switch key {
		case "type", "text", "source", "image_url", "file_id", "data", "mimeType", "detail":
			return
		}
		rest.WriteByte(',')
		rest.Write(quote(key))
		rest.WriteByte(':')
		rest.Write(f.b[m.start:m.end])
	})
	id, about := f.about(im)
	if d := f.described(im.list, id); d != "" {
		about = d
	}
	return fmt.Appendf(nil, `{"type":%q,"text":%s%s}`, kind, quote("[image left out] "+line(id, about)), rest.Bytes())
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string encodes, into a buffer
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// about is an image's id, and what it tells about itself.
func (f *finder) about(im found) (id, about string) {
	var data, url, file string
	var look func(v span)
	look = func(v span) {
		f.each(v, func(key string, m span) {
			switch {
			case f.b[m.start] == '{' && (key == "source" || key == "image_url"):
				look(m)
			case key == "data":
				data = f.text(m)
			case key == "url" || key == "image_url":
				url = f.text(m)
			case key == "file_id":
				file = f.text(m)
			}
		})
	}
	look(im.span)
	if meta, enc, ok := strings.Cut(url, ","); ok && strings.HasPrefix(meta, "data:") {
		if strings.HasSuffix(meta, ";base64") {
			data = enc
		} else {
			return ID([]byte(url)), "an image"
		}
	}
	switch {
	case data != "":
		raw, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return ID([]byte(data)), "an image"
		}
		if cfg, format, err := image.DecodeConfig(bytes.NewReader(raw)); err == nil {
			return ID(raw), fmt.Sprintf("%s image, %d×%d pixels", format, cfg.Width, cfg.Height)
		}
		return ID(raw), "an image"
	case file != "":
		return ID([]byte(file)), Describe("image in file " + file)
	case url != "":
		return ID([]byte(url)), Describe("image at " + url)
	}
	return ID(f.b[im.start:im.end]), "an image"
}

// described is the description that stands beside an image.
func (f *finder) described(list span, id string) string {
	lines, ok := f.lines[list]
	if !ok {
		lines = f.descriptions(list)
		f.lines[list] = lines
	}
	return lines[id]
}

// descriptions collects the lines of stills in the text blocks of a list.
func (f *finder) descriptions(list span) map[string]string {
	lines := map[string]string{}
	f.each(list, func(_ string, v span) {
		if f.b[v.start] != '{' {
			return
		}
		kind, text := "", ""
		f.each(v, func(key string, m span) {
			switch key {
			case "type":
				kind = f.text(m)
			case "text":
				text = f.text(m)
			}
		})
		if kind != "text" && kind != "input_text" && kind != "output_text" {
			return
		}
		for l := range strings.SplitSeq(text, "\n") {
			id, d, ok := strings.Cut(strings.TrimSpace(l), ": ")
			if id, still := strings.CutPrefix(id, "still "); ok && still {
				lines[id] = Describe(d)
			}
		}
	})
	return lines
}

// text is the value of a string, "" of anything else.
func (f *finder) text(v span) string {
	var s string
	if f.b[v.start] == '"' {
		_ = json.Unmarshal(f.b[v.start:v.end], &s) // it is valid
	}
	return s
}

// each calls fn for the members of an object or the elements of an array, in
// order, repeated keys too.
func (f *finder) each(v span, fn func(key string, m span)) {
	object := f.b[v.start] == '{'
	for i := f.next(v.start + 1); i < v.end-1; {
		key := ""
		if object {
			k := f.value(i)
			key = f.text(k)
			i = f.next(k.end)
		}
		m := f.value(i)
		fn(key, m)
		i = f.next(m.end)
	}
}

// next skips what stands between values.
func (f *finder) next(i int) int {
	for i < len(f.b) && strings.IndexByte(" \t\r\n,:", f.b[i]) >= 0 {
		i++
	}
	return i
}

// value is the span of the value at i, or after the white space there.
func (f *finder) value(i int) span {
	i = f.next(i)
	start, depth := i, 0
	for i < len(f.b) {
		switch f.b[i] {
		case '"':
			i = f.stringEnd(i)
			if depth == 0 {
				return span{start, i}
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				if depth == 0 {
					i++
				}
				return span{start, i} // or of a scalar, at the end of what it is in
			}
		case ' ', '\t', '\r', '\n', ',', ':':
			if depth == 0 {
				return span{start, i}
			}
		}
		i++
	}
	return span{start, i}
}

// stringEnd is where the string that begins at i ends.
func (f *finder) stringEnd(i int) int {
	for i++; f.b[i] != '"'; i++ {
		if f.b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

package stills

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rigs/internal/rig"
)

func picture(t testing.TB, w, h int, shade uint8, asJPEG bool) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, w, h))
	m.Set(0, 0, color.Gray{Y: shade})
	var b bytes.Buffer
	err := png.Encode(&b, m)
	if asJPEG {
		b.Reset()
		err = jpeg.Encode(&b, m, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAStillIsBounded(t *testing.T) {
	ok, err := New("Firefox:\n\x1b[31m “Example”\u202e", picture(t, 1280, 800, 1, false))
	if err != nil {
		t.Fatal(err)
	}
	if ok.MediaType != "image/png" || ok.Width != 1280 || ok.Height != 800 || ok.Description != `Firefox: “Example”\u202e` || len(ok.ID) != 19 || ok.Line() != "still "+ok.ID+": "+ok.Description {
		t.Errorf("%+v", ok)
	}
	if j, err := New("", picture(t, 8, 8, 1, true)); err != nil || j.MediaType != "image/jpeg" {
		t.Errorf("a JPEG: %+v, %v", j, err)
	}
	for name, c := range map[string]struct {
		data []byte
		code rig.Code
	}{
		"too wide": {picture(t, 1281, 1, 1, false), rig.CodeTooLarge},
		"too high": {picture(t, 1, 801, 1, false), rig.CodeTooLarge},
		"too much": {make([]byte, MaxBytes+1), rig.CodeTooLarge},
		"no image": {[]byte("GIF89a"), rig.CodeBackendFailure},
		"nothing":  {nil, rig.CodeBackendFailure},
	} {
		if _, err := New("", c.data); rig.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := Describe(strings.Repeat("é", 1000)); len(d) > MaxDescription || !strings.HasSuffix(d, "…") {
		t.Errorf("a description of %d bytes", len(d))
	}
}

func TestAnImageKeepsItsID(t *testing.T) {
	a, b := picture(t, 4, 4, 1, false), picture(t, 4, 4, 2, false)
	if ID(a) != ID(bytes.Clone(a)) || ID(a) == ID(b) {
		t.Error("ids are not those of the bytes")
	}
}

// Each dialect, exactly: what goes in, what comes out with the newest 1 kept.
func TestEachDialect(t *testing.T) {
	img := picture(t, 10, 20, 7, false)
	data, id := base64.StdEncoding.EncodeToString(img), ID(img)
	last := `{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.test/last"}}]}]`
	self := "[image left out] still " + id + ": png image, 10×20 pixels"
	for name, c := range map[string][2]string{
		"Anthropic": {
			`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}]}`,
			`{"role":"user","content":[{"type":"text","text":"` + self + `"}]}`,
		},
		"Anthropic, in a tool's result, described, cached": {
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[ {"type":"text","text":"done\nstill ` + id + `: a login page"}, {"source":{"data":"` + data + `","type":"base64"},"cache_control":{"type": "ephemeral"},"type":"image"} ]}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[ {"type":"text","text":"done\nstill ` + id + `: a login page"}, {"type":"text","text":"[image left out] still ` + id + `: a login page","cache_control":{"type": "ephemeral"}} ]}]}`,
		},
		"Anthropic, in a document": {
			`{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"image","source":{"type":"base64","data":"` + data + `"}}]}}]}`,
			`{"role":"user","content":[{"type":"document","source":{"type":"content","content":[{"type":"text","text":"` + self + `"}]}}]}`,
		},
		"Anthropic, a file": {
			`{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"file_1"}}]}`,
			`{"role":"user","content":[{"type":"text","text":"[image left out] still ` + ID([]byte("file_1")) + `: image in file file_1"}]}`,
		},
		"OpenAI, chat": {
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `","detail":"high"}}]}`,
			`{"role":"user","content":[{"type":"text","text":"` + self + `"}]}`,
		},
		"OpenAI, chat, a URL": {
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.test/a<b>&c"}}]}`,
			`{"role":"user","content":[{"type":"text","text":"[image left out] still ` + ID([]byte("https://x.test/a<b>&c")) + `: image at https://x.test/a<b>&c"}]}`,
		},
		"OpenAI, responses": {
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"still ` + id + `: a menu"},{"type":"input_image","image_url":"data:image/png;base64,` + data + `","detail":"auto"}]}`,
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"still ` + id + `: a menu"},{"type":"input_text","text":"[image left out] still ` + id + `: a menu"}]}`,
		},
		"OpenAI, responses, a function's output": {
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_image","image_url":"data:image/png;base64,` + data + `"}]}`,
			`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"` + self + `"}]}`,
		},
		"MCP": {
			`{"role":"tool","content":[{"type":"image","data":"` + data + `","mimeType":"image/png"}]}`,
			`{"role":"tool","content":[{"type":"text","text":"` + self + `"}]}`,
		},
		"escaped names": {
			`{"role":"user","\u0063ontent":[{"\u0074ype":"im\u0061ge","source":{"data":"` + data + `"}}]}`,
			`{"role":"user","\u0063ontent":[{"type":"text","text":"` + self + `"}]}`,
		},
		"what a tool was called with": {
			`{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"content":[{"type":"image","source":{"data":"` + data + `"}}]}}]}`, "",
		},
		"a computer's screenshot": {
			`{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,` + data + `"}}`, "",
		},
		"text about images": {
			`{"role":"user","content":"{\"type\":\"image\",\"source\":{}}"}`, "",
		},
		"numbers, repeated keys, odd spacing": {
			"{\"role\":\"user\" , \"n\":123456789012345678901234567890.10e+400,\t\"n\":-0, \"content\":\n[ {\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\":\"\"}} ,1, null,[],\"\\ud800\"]}",
			"{\"role\":\"user\" , \"n\":123456789012345678901234567890.10e+400,\t\"n\":-0, \"content\":\n[ {\"type\":\"text\",\"text\":\"[image left out] still " + ID([]byte(`{"type":"image","source":{"type":"url","url":""}}`)) + ": an image\"} ,1, null,[],\"\\ud800\"]}",
		},
	} {
		want, n := c[1], 1
		if want == "" {
			want, n = c[0], 0
		}
		for _, wrap := range [][2]string{{"[", ""}, {`{"model":"m","messages":[`, "}"}, {`{"input" : [`, `,"temperature":1.0}` + "\n"}} {
			in, out := wrap[0]+c[0]+","+last+wrap[1], wrap[0]+want+","+last+wrap[1]
			got, shed, err := Shed([]byte(in), 1)
			if err != nil || shed != n {
				t.Errorf("%s: %d shed, %v", name, shed, err)
			}
			if d := cmp.Diff(out, string(got)); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
}

func TestWhatIsNoConversationIsRefused(t *testing.T) {
	for _, in := range []string{``, `null`, `"x"`, `{}`, `{"messages":{}}`, `[`, `[] []`, "[\"\x01\"]", strings.Repeat("[", 20000) + strings.Repeat("]", 20000)} {
		if _, _, err := Shed([]byte(in), 1); rig.CodeOf(err) != rig.CodeInvalidRequest || rig.AsProblem(err).Field != "messages" {
			t.Errorf("%.20q: %v", in, err)
		}
	}
	if _, _, err := Shed([]byte(`[]`), -1); rig.AsProblem(err).Field != "keep" {
		t.Errorf("keep -1: %v", err)
	}
	if _, _, err := Shed([]byte(`[`+strings.Repeat("1,", maxBlocks)+`1]`), 1); rig.CodeOf(err) != rig.CodeTooLarge {
		t.Errorf("a list without end: %v", err)
	}
}

// conversation is one that is made of pieces, so that the right answer is known.
type conversation struct {
	r      *rand.Rand
	pieces []string
	images []int // which pieces
}

func (c *conversation) raw(s string) { c.pieces = append(c.pieces, s) }

func (c *conversation) space() string {
	return []string{"", "", " ", "\n\t", "\r\n  "}[c.r.Intn(5)]
}

// junk is any JSON that is not content.
func (c *conversation) junk(depth int) string {
	if depth == 0 {
		return []string{"null", "true", "-0.0", "1e999", "99999999999999999999", `"\ud83d\ude00"`, `"a\\\"]}"`, `""`, "[]", "{}"}[c.r.Intn(10)]
	}
	if c.r.Intn(2) == 0 {
		return "[" + c.junk(depth-1) + c.space() + "," + c.junk(depth-1) + "]"
	}
	return `{"k":` + c.junk(depth-1) + "," + c.space() + `"k" :` + c.junk(depth-1) + `,"type":"image","source":{}}`
}

func (c *conversation) image() {
	n := c.r.Int63()
	data := base64.StdEncoding.EncodeToString(fmt.Append(nil, n))
	s := c.space()
	c.images = append(c.images, len(c.pieces))
	c.raw([]string{
		`{"type":"image",` + s + `"source":{"type":"base64","data":"` + data + `"}}`,
		`{"source":{"type":"url","url":"https://x.test/` + data + `"},"type":"image"` + s + `}`,
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}` + s + `}`,
		`{"type":"input_image","image_url":"data:image/jpeg;base64,` + data + `","x":` + c.junk(2) + `}`,
		`{"type":"image","data":"` + data + `","mimeType":"image/webp"}`,
	}[c.r.Intn(5)])
}

func (c *conversation) list(depth int) {
	c.raw("[" + c.space())
	for i := range c.r.Intn(5) {
		if i > 0 {
			c.raw(c.space() + "," + c.space())
		}
		switch c.r.Intn(5) {
		case 0, 1:
			c.image()
		case 2:
			c.raw(`{"type":"tool_use","input":` + c.junk(3) + `}`)
		case 3:
			c.raw(c.junk(0))
		default:
			if depth == 0 {
				c.raw(`{"type":"text","text":"x"}`)
				continue
			}
			around := [][2]string{
				{`{"type":"tool_result","content":`, `,"is_error":` + c.junk(1) + "}"},
				{`{"junk":` + c.junk(2) + `,"output":`, "}"},
				{`{"type":"document","source":{"content":`, "}}"},
			}[c.r.Intn(3)]
			c.raw(around[0])
			c.list(depth - 1)
			c.raw(around[1])
		}
	}
	c.raw(c.space() + "]")
}

func TestSheddingKeepsTheNewestAndChangesNothingElse(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 3000 {
		c := &conversation{r: r}
		c.raw(c.space() + "[")
		for i := range r.Intn(6) {
			if i > 0 {
				c.raw(",")
			}
			c.raw(`{"role":"user","id":` + c.junk(1) + `,"content":`)
			c.list(2)
			c.raw("}")
		}
		c.raw("]" + c.space())
		in := []byte(strings.Join(c.pieces, ""))
		keep := r.Intn(len(c.images) + 2)
		got, shed, err := Shed(in, keep)
		if err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		gone := max(0, len(c.images)-keep)
		if shed != gone || !json.Valid(got) {
			t.Fatalf("%s: shed %d of %d keeping %d: %s", in, shed, len(c.images), keep, got)
		}
		// Every piece but the oldest images is there, in its place, byte for byte.
		rest := string(got)
		for i, p := range c.pieces {
			if len(c.images) > 0 && gone > 0 && i == c.images[0] {
				c.images, gone = c.images[1:], gone-1
				var block struct{ Type, Text string }
				d := json.NewDecoder(strings.NewReader(rest))
				if err := d.Decode(&block); err != nil || !strings.HasPrefix(block.Text, "[image left out] still st_") || block.Type != "text" && block.Type != "input_text" {
					t.Fatalf("in place of %s: %+v, %v", p, block, err)
				}
				rest = rest[d.InputOffset():]
				continue
			}
			var ok bool
			if rest, ok = strings.CutPrefix(rest, p); !ok {
				t.Fatalf("%s keeping %d: %s: at %.60s, not %s", in, keep, got, rest, p)
			}
		}
		if rest != "" {
			t.Fatalf("%s: ends with %s", got, rest)
		}
		again, shed, err := Shed(got, keep)
		if err != nil || shed != 0 || !bytes.Equal(again, got) {
			t.Fatalf("again: %d shed, %v, %s", shed, err, again)
		}
	}
}

func FuzzShed(f *testing.F) {
	f.Add([]byte(`[{"content":[{"type":"image","source":{}},{"type":"image","data":""}]}]`), 1)
	f.Fuzz(func(t *testing.T, in []byte, keep int) {
		out, shed, err := Shed(in, keep)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		if again, n, err := Shed(out, keep); err != nil || n != 0 || !bytes.Equal(again, out) {
			t.Fatalf("%q: shed %d, then %d, %v: %q", in, shed, n, err, again)
		}
	})
}

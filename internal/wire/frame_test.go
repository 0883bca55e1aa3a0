package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFramesArriveAsSent(t *testing.T) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	big := bytes.Repeat([]byte("x"), 2*MaxFrame+1)
	if err := w.Write(KindStdin, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteData(KindStdout, big); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteAck(1 << 20); err != nil {
		t.Fatal(err)
	}
	r := NewReader(iotest.OneByteReader(&buf))
	f, err := r.Next()
	if err != nil || f.Kind != KindStdin || len(f.Payload) != 0 {
		t.Fatalf("first frame = %v %v, want an empty stdin frame", f, err)
	}
	var got []byte
	for range 3 {
		if f, err = r.Next(); err != nil || f.Kind != KindStdout {
			t.Fatalf("data frame = kind %v, %v", f.Kind, err)
		}
		got = append(got, f.Payload...)
	}
	if !bytes.Equal(got, big) {
		t.Error("data changed on the way")
	}
	if f, err = r.Next(); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Ack(); err != nil || n != 1<<20 {
		t.Errorf("Ack = %d, %v", n, err)
	}
	if _, err = r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last frame: %v, want EOF", err)
	}
}

func TestMalformedFramesAreRefused(t *testing.T) {
	for name, in := range map[string]string{
		"kind 0":            "\x00\x00\x00\x00\x00",
		"kind of tomorrow":  "\x0b\x00\x00\x00\x00",
		"too long":          "\x02\x00\x01\x00\x01",
		"huge":              "\x02\xff\xff\xff\xff",
		"truncated header":  "\x02\x00",
		"truncated payload": "\x02\x00\x00\x00\x05ab",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewReader(strings.NewReader(in)).Next(); !errors.Is(err, ErrFrame) {
				t.Errorf("got %v, want ErrFrame", err)
			}
		})
	}
	if err := NewWriter(io.Discard).Write(KindStdin, make([]byte, MaxFrame+1)); !errors.Is(err, ErrFrame) {
		t.Errorf("oversized write: %v, want ErrFrame", err)
	}
}

func TestJSONIsDecodedStrictly(t *testing.T) {
	type v struct {
		A int `json:"a"`
	}
	for in, ok := range map[string]bool{
		`{"a":1}`: true, ` {"a":1} `: true, `{}`: true,
		`{"a":1,"b":2}`: false, `{"a":1}{}`: false, `{"a":1} x`: false, ``: false, `{"a":"1"}`: false, `[]`: false,
	} {
		var x v
		if err := (Frame{KindStart, []byte(in)}).Decode(&x); (err == nil) != ok {
			t.Errorf("%q: err = %v, want ok %v", in, err, ok)
		}
	}
	var x v
	if err := ReadJSON(strings.NewReader(`{"a":1}`+strings.Repeat(" ", 100)), 50, &x); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v, want ErrTooLarge", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00\x01a\x04\x00\x00\x00\x00"))
	f.Add([]byte("\x06\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r := NewReader(bytes.NewReader(in))
		for total := 0; ; {
			fr, err := r.Next()
			if err != nil {
				return
			}
			if total += 5 + len(fr.Payload); total > len(in) {
				t.Fatalf("%d bytes out of %d", total, len(in))
			}
		}
	})
}

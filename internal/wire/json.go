package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is returned by ReadJSON for a body over its limit.
var ErrTooLarge = errors.New("message too large")

// ReadJSON reads one JSON value of at most limit bytes from r into v. Unknown
// fields and anything after the value are errors.
func ReadJSON(r io.Reader, limit int64, v any) error {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(b)) > limit {
		return fmt.Errorf("%w: over %d bytes", ErrTooLarge, limit)
	}
	return DecodeStrict(b, v)
}

// DecodeStrict decodes exactly one JSON value; unknown fields and trailing data
// are errors.
func DecodeStrict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the JSON value")
	}
	return nil
}

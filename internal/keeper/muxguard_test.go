package keeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/wire"
)

func muxFrame(version, kind byte, flags uint16, length uint32) []byte {
	b := []byte{version, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, 1)
	return binary.BigEndian.AppendUint32(b, length)
}

func TestMuxGuard(t *testing.T) {
	data := append(muxFrame(0, muxData, 0, 5), "hello"...)
	good := bytes.Join([][]byte{muxFrame(0, muxWindow, 2, 1<<20), data, muxFrame(0, muxData, 4, 0), muxFrame(0, muxWindow, 8, 0), muxFrame(0, muxGoAway, 0, 0)}, nil)
	for size := 1; size <= len(good); size++ { // cut anywhere
		var g muxGuard
		for p := good; len(p) > 0; {
			n := min(size, len(p))
			if err := g.check(p[:n]); err != nil {
				t.Fatalf("in pieces of %d: %v", size, err)
			}
			p = p[n:]
		}
	}
	for name, bad := range map[string][]byte{
		"a stream":        muxFrame(0, muxWindow, 1, 0),
		"a stream, data":  muxFrame(0, muxData, 1, 0),
		"a ping":          muxFrame(0, 2, 1, 0),
		"a ping's answer": muxFrame(0, 2, 2, 0),
		"another version": muxFrame(1, muxData, 0, 0),
		"another type":    muxFrame(0, 4, 0, 0),
		"other flags":     muxFrame(0, muxData, 0x10, 0),
		"a huge frame":    muxFrame(0, muxData, 0, maxMuxFrame+1),
	} {
		var g muxGuard
		if err := g.check(append(bytes.Clone(data), bad...)); !errors.Is(err, errMux) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A guest that opens streams of its own, as many as it likes, ends its session.
func TestGuestThatFloodsEndsItsSession(t *testing.T) {
	host, guest := net.Pipe()
	served := make(chan struct{})
	var mux *wire.Mux
	go func() {
		defer close(served)
		if err := wire.GuestHandshake(guest, nil); err != nil {
			return
		}
		m, err := wire.NewMux(guest, false)
		if err != nil {
			return
		}
		mux = m
		srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			wire.WriteJSON(w, guestapi.Hello{Version: "v"})
		})}
		_ = srv.Serve(m.Listener())
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	a, err := connect(ctx, host)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	if h, err := a.hello(ctx); err != nil || h.Version != "v" {
		t.Fatalf("%+v, %v", h, err)
	}
	go func() {
		for {
			c, err := mux.Dial(ctx)
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, zeros{}) }()
		}
	}()
	select {
	case <-a.mux.Done():
	case <-ctx.Done():
		t.Error("the session goes on")
	}
	a.close()
	<-served
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"rigs/client"
)

// terminal is the user's terminal while a guest's program has it.
type terminal struct {
	size    client.Size
	resize  <-chan client.Size
	restore func() // safe to call twice
}

// openTerm takes the user's terminal: its size, its changes of size, and, when
// input is connected, its keys unprocessed. Without a terminal for input the
// command still gets one of its own, of the usual size.
func (a *app) openTerm(ctx context.Context, input bool) (*terminal, error) {
	t := &terminal{size: client.Size{Cols: 80, Rows: 24}, restore: func() {}}
	if out, ok := a.out.(*os.File); ok && isTerminal(a.out) {
		fd := int(out.Fd())
		if w, h, err := term.GetSize(fd); err == nil && w > 0 && h > 0 {
			t.size = client.Size{Cols: w, Rows: h}
		}
		t.resize = watchSize(ctx, fd)
	}
	in, ok := a.in.(*os.File)
	if !input || !ok || !term.IsTerminal(int(in.Fd())) {
		return t, nil
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	t.restore = sync.OnceFunc(func() {
		_ = term.Restore(int(in.Fd()), old) // the terminal may be gone
	})
	return t, nil
}

// watchSize reports changes of the terminal's size until ctx ends. Only the
// latest matters.
func watchSize(ctx context.Context, fd int) <-chan client.Size {
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, syscall.SIGWINCH)
	out := make(chan client.Size, 1)
	go func() {
		defer signal.Stop(sig)
		for {
			select {
			case <-ctx.Done():
				return
			case <-sig:
			}
			w, h, err := term.GetSize(fd)
			if err != nil || w <= 0 || h <= 0 {
				continue
			}
			select {
			case <-out: // replaced by the newer one
			default:
			}
			out <- client.Size{Cols: w, Rows: h}
		}
	}()
	return out
}

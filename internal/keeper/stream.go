package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// serveStream relays an exec or terminal stream.
func (k *keeper) serveStream(w http.ResponseWriter, r *http.Request, kind string) error {
	if !wire.IsUpgrade(r) {
		_, err := wire.Accept(w, r) // answers
		return ignore(err)
	}
	a, done, err := k.use(r.Context(), kind)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	guest, err := wire.Dial(ctx, a.mux.Dial, "guest", "/v1/"+kind, nil)
	cancel()
	if err != nil {
		return k.broken(guestError(err))
	}
	defer guest.Close()
	client, err := wire.Accept(w, r)
	if err != nil {
		return ignore(err)
	}
	defer client.Close()
	k.relay(client, guest)
	return nil
}

// ignore drops an error that has been answered.
func ignore(error) error { return nil }

// guestError cleans a refusal that came as a problem.
func guestError(err error) error {
	var p *rig.Problem
	if !errors.As(err, &p) {
		return err
	}
	return cleanCode(p.Code, p.Detail, p.Field)
}

// relay carries a stream until either end is done. The client's bytes go to the
// guest as they are, which decodes them strictly; the guest's are parsed and
// written anew, so that nothing but well-formed frames of the right kinds
// leaves the keeper. Once it returns nothing of the stream is left.
func (k *keeper) relay(client, guest net.Conn) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		// An end of the client's bytes is the client's end: the end of input is a
		// frame. What is said to a guest that has gone does not matter.
		_, _ = io.CopyBuffer(struct{ io.Writer }{guest}, touching{client, k}, make([]byte, wire.MaxFrame))
		guest.Close()
	}()
	out := wire.NewWriter(client)
	if err := guestFrames(bufio.NewReaderSize(guest, wire.MaxFrame), out); err != nil {
		if errors.Is(err, errClient) {
			k.log.Debug("stream", "err", err)
		} else {
			_ = client.SetWriteDeadline(time.Now().Add(eventStall))
			_ = out.WriteJSON(wire.KindError, rig.AsProblem(k.explain(err))) // the client may be gone
		}
	}
	guest.Close()
	client.Close()
	<-up
}

// explain says why a stream broke.
func (k *keeper) explain(err error) error {
	k.mu.Lock()
	m, p := k.b.machine, k.problem
	k.mu.Unlock()
	if p != nil {
		return p
	}
	if errors.Is(err, wire.ErrFrame) {
		return rig.Errorf(rig.CodeBackendFailure, "the machine's stream broke: %w", err)
	}
	return m.Diagnose(fmt.Errorf("the machine's stream broke: %w", err))
}

// touching counts what is read as use of the rig.
type touching struct {
	net.Conn
	k *keeper
}

func (t touching) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.k.touch(t.k.gateCtx)
	}
	return n, err
}

// errClient is wrapped by errors of the client's side of a relay.
var errClient = errors.New("the client has gone")

// guestFrames copies frames up to the one that ends the stream.
func guestFrames(guest io.Reader, client *wire.Writer) error {
	in := wire.NewReader(guest)
	for {
		f, err := in.Next()
		if err != nil {
			return err
		}
		last := false
		switch f.Kind {
		case wire.KindStdout, wire.KindStderr:
			err = client.Write(f.Kind, f.Payload)
		case wire.KindAck:
			n, aerr := f.Ack()
			if aerr != nil || n > wire.Window {
				return fmt.Errorf("%w: acknowledgement", wire.ErrFrame)
			}
			err = client.WriteAck(n)
		case wire.KindExit:
			var st guestapi.ExitStatus
			if err := f.Decode(&st); err != nil {
				return err
			}
			last, err = true, client.WriteJSON(wire.KindExit, st)
		case wire.KindError:
			last, err = true, client.WriteJSON(wire.KindError, cleanProblem(f.Payload))
		default:
			return fmt.Errorf("%w: kind %d from the guest", wire.ErrFrame, f.Kind)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errClient, err)
		}
		if last {
			return nil
		}
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"rigs/client"
)

// Names of rows that others are compared with.
const (
	rowCold  = "cold boot: open, first command's output"
	rowClone = "clone: open, first command's output"
	rowFloor = "floor: bare QEMU restore of that template, the same output"
)

// firstOutput opens a rig, waits for the output of one command and closes it.
// Only what comes before the closing is timed.
func firstOutput(ctx context.Context, b *bench, s client.Spec) (float64, error) {
	var r client.Rig
	took, err := seconds(func() (err error) {
		if r, err = b.open(ctx, s, nil); err != nil {
			return err
		}
		return say(ctx, b, r.ID)
	})
	if r.ID != "" {
		if _, cerr := b.Close(ctx, r.ID); err == nil {
			err = cerr
		}
	}
	return took, err
}

// say runs a shell that says hello, and checks that it did.
func say(ctx context.Context, b *bench, id string) error {
	res, err := b.Run(ctx, id, client.ExecCollect{ExecRequest: client.ExecRequest{Shell: "echo hello"}})
	if err != nil {
		return err
	}
	if string(res.Stdout) != "hello\n" {
		return fmt.Errorf("the command said %q", res.Stdout)
	}
	return nil
}

func measureOpen(ctx context.Context, b *bench, rep *report) error {
	measure := func(s client.Spec, n int) (out []float64, err error) {
		for range n {
			t, err := firstOutput(ctx, b, s)
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		}
		return out, nil
	}
	cold, err := measure(client.Spec{Cold: true}, max(3, *repeat/2))
	if err != nil {
		return err
	}
	rep.add(rowCold, "s", "", cold...)
	floor, err := measureFloor(ctx, b, *repeat)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	rep.add(rowFloor, "s", "", floor...)
	clone, err := measure(client.Spec{}, *repeat)
	if err != nil {
		return err
	}
	rep.add(rowClone, "s", "≤ 1.3 × floor, ≤ 0.25 × cold", clone...)
	rep.add("clone ÷ floor", "", "≤ 1.3", rep.median(rowClone)/rep.median(rowFloor))
	rep.add("clone ÷ cold boot", "", "≤ 0.25", rep.median(rowClone)/rep.median(rowCold))
	whole, err := times(*repeat, 1, func() error { return b.command(ctx, "run", "--", "true").Run() })
	if err != nil {
		return err
	}
	rep.add("`rigs run -- true`, the whole process: open, run, close", "s", "", whole...)
	return measureEight(ctx, b, rep)
}

// measureEight opens eight rigs side by side, each until its first output.
func measureEight(ctx context.Context, b *bench, rep *report) error {
	const n = 8
	each, ids := make([]float64, n), make([]string, n)
	began := time.Now()
	var g errgroup.Group
	for i := range n {
		g.Go(func() (err error) {
			each[i], err = seconds(func() error {
				r, err := b.open(ctx, client.Spec{}, nil)
				ids[i] = r.ID
				if err != nil {
					return err
				}
				return say(ctx, b, r.ID)
			})
			return err
		})
	}
	err := g.Wait()
	wall := time.Since(began).Seconds()
	for _, id := range ids {
		if id != "" {
			if _, cerr := b.Close(ctx, id); err == nil {
				err = cerr
			}
		}
	}
	if err != nil {
		return err
	}
	rep.add("eight opens side by side: each, to its first output", "s", "", each...)
	rep.add("eight opens side by side: all", "s", "", wall)
	return nil
}

// measureExec compares a command in a warm rig with ssh, and streams output.
func measureExec(ctx context.Context, b *bench, rep *report) error {
	r, err := b.open(ctx, client.Spec{}, nil)
	if err != nil {
		return err
	}
	defer b.Close(context.WithoutCancel(ctx), r.ID) //nolint:errcheck // the server closes it with itself
	api, err := times(3**repeat, 1000, func() error {
		res, err := b.Run(ctx, r.ID, client.ExecCollect{ExecRequest: client.ExecRequest{Argv: []string{"true"}}})
		if err == nil && res.Code != 0 {
			err = fmt.Errorf("true exited %d", res.Code)
		}
		return err
	})
	if err != nil {
		return err
	}
	rep.add("warm exec of `true`, one API request", "ms", "", api...)
	cli, err := times(2**repeat, 1000, func() error { return b.command(ctx, "exec", r.ID, "--", "true").Run() })
	if err != nil {
		return err
	}
	rep.add(rowExec, "ms", "≤ 0.5 × ssh", cli...)
	if err := measureSSH(ctx, b, r.ID, rep); err != nil {
		return err
	}
	const size = 100 << 20
	out, err := times(3, 1, func() error {
		n := &counter{}
		st, err := b.Exec(ctx, r.ID, client.ExecRequest{Argv: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}}, client.StreamIO{Stdout: n, Stderr: io.Discard})
		if err == nil && (st.Code != 0 || n.n != size) {
			err = fmt.Errorf("exit %d after %d bytes", st.Code, n.n)
		}
		return err
	})
	if err != nil {
		return err
	}
	rep.add("100 MB out through exec", "MB/s", "", rates(100, out)...)
	return nil
}

// rates turns times for an amount into amounts a second.
func rates(amount float64, secs []float64) []float64 {
	out := make([]float64, len(secs))
	for i, s := range secs {
		out[i] = amount / s
	}
	return out
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

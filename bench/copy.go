package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"rigs/client"
)

// measureCopy copies one large file and many small ones both ways with `rigs cp`.
func measureCopy(ctx context.Context, b *bench, rep *report) error {
	r, err := b.open(ctx, client.Spec{}, nil)
	if err != nil {
		return err
	}
	defer b.Close(context.WithoutCancel(ctx), r.ID) //nolint:errcheck // the server closes it with itself
	const megabytes, files = 100, 2000
	big := filepath.Join(b.dir, "big")
	data := make([]byte, megabytes<<20)
	rand.Read(data)
	if err := os.WriteFile(big, data, 0o644); err != nil {
		return err
	}
	small := filepath.Join(b.dir, "small")
	for i := range files {
		p := filepath.Join(small, strconv.Itoa(i%20), fmt.Sprintf("file-%d", i))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, data[i*4096:(i+1)*4096], 0o644); err != nil {
			return err
		}
	}
	cp := func(src, dst string) func() error {
		return func() error { return b.command(ctx, "cp", src, dst).Run() }
	}
	const n = 3
	in, err := times(n, 1, cp(big, r.ID+":/tmp/big"))
	if err != nil {
		return err
	}
	rep.add("`rigs cp` of a 100 MB file, in", "MB/s", "", rates(megabytes, in)...)
	out, err := times(n, 1, cp(r.ID+":/tmp/big", filepath.Join(b.dir, "back")))
	if err != nil {
		return err
	}
	rep.add("`rigs cp` of a 100 MB file, out", "MB/s", "", rates(megabytes, out)...)
	back, err := os.ReadFile(filepath.Join(b.dir, "back"))
	if err != nil {
		return err
	}
	if string(back) != string(data) {
		return errors.New("the file came back changed")
	}
	if in, err = times(n, 1, cp(small, r.ID+":/tmp/")); err != nil {
		return err
	}
	rep.add("`rigs cp` of 2,000 files of 4 KB, in", "files/s", "", rates(files, in)...)
	if out, err = times(n, 1, cp(r.ID+":/tmp/small", filepath.Join(b.dir, "out"))); err != nil {
		return err
	}
	rep.add("`rigs cp` of 2,000 files of 4 KB, out", "files/s", "", rates(files, out)...)
	return nil
}

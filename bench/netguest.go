package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	"rigs/client"
	"rigs/internal/guestapi"
	"rigs/internal/keeper/vm"
)

// netGuest is a machine on one kind of network.
type netGuest struct {
	kind   string
	id     string // of the rig, if it is one
	host   string // the address at which it reaches this host's services
	denied string // one at which it must be refused
	exec   func(context.Context, guestapi.ExecRequest, io.Reader) (string, error)
	stop   func() error
}

// startGuests starts one guest of each kind, the gate's first. What was started is
// returned with an error, too.
func startGuests(ctx context.Context, b *bench, s *services) (guests []*netGuest, err error) {
	g, err := gateGuest(ctx, b, s)
	if g != nil {
		guests = append(guests, g)
	}
	if err != nil {
		return guests, err
	}
	r, err := b.Rig(ctx, g.id)
	if err != nil {
		return guests, err
	}
	c, err := cloneOf(r)
	if err != nil {
		return guests, err
	}
	for _, start := range []func(context.Context, *bench, clone) (*netGuest, error){slirpGuest, passtGuest} {
		g, err := start(ctx, b, c)
		if err != nil {
			return guests, err
		}
		guests = append(guests, g)
	}
	tools, err := packTools(ctx, b.dir)
	if err != nil {
		return guests, err
	}
	for _, g := range guests {
		if _, err := g.exec(ctx, guestapi.ExecRequest{Shell: "mkdir -p " + toolDir + " && tar -x -C " + toolDir}, bytes.NewReader(tools)); err != nil {
			return guests, fmt.Errorf("%s: bring the tools in: %w", g.kind, err)
		}
	}
	gate := guests[0]
	for name, to := range map[string]*string{hostName: &gate.host, "denied.test": &gate.denied} {
		out, err := gate.tool(ctx, "netprobe", "lookup", name)
		if err != nil {
			return guests, err
		}
		*to = strings.TrimSpace(out)
	}
	return guests, nil
}

// hostName is a name that this host resolves to its own loopback, always.
const hostName = "localhost"

// gateGuest is a rig as everybody gets it.
func gateGuest(ctx context.Context, b *bench, s *services) (*netGuest, error) {
	r, err := b.open(ctx, client.Spec{}, nil)
	if err != nil {
		return nil, err
	}
	g := &netGuest{kind: "gate", id: r.ID}
	g.stop = func() error { _, err := b.Close(context.WithoutCancel(ctx), r.ID); return err }
	g.exec = func(ctx context.Context, ask guestapi.ExecRequest, input io.Reader) (string, error) {
		var out, complaint bytes.Buffer
		ask.Stdin = input != nil
		st, err := b.Exec(ctx, r.ID, ask, client.StreamIO{Stdin: input, Stdout: &out, Stderr: &complaint})
		if err == nil && st.Code != 0 {
			err = fmt.Errorf("status %d: %s %s", st.Code, tail(complaint.String()), tail(out.String()))
		}
		return out.String(), err
	}
	_, err = b.Allow(ctx, r.ID, fmt.Sprintf("%s:%s,%s private", hostName, s.iperfPort, s.httpPort))
	return g, err
}

// bareGuest is a clone whose network is somebody else's.
func bareGuest(ctx context.Context, kind, host string, c clone, network guestapi.Network) (*netGuest, *machine, error) {
	m, err := c.boot(ctx, network)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", kind, err)
	}
	g := &netGuest{kind: kind, host: host, denied: host, exec: m.exec, stop: func() error { m.stop(); return nil }}
	return g, m, nil
}

// slirpGuest is on QEMU's user networking. The command line is the server's but for
// -netdev, which a script in QEMU's place changes. slirp's MTU is 1500, and its gateway stands for this
// host's loopback.
func slirpGuest(ctx context.Context, b *bench, c clone) (*netGuest, error) {
	script := filepath.Join(b.dir, "slirp-qemu")
	text := "#!/bin/bash\nargs=()\nfor a; do case $a in stream,id=net,*) a=user,id=net ;; esac; args+=(\"$a\"); done\nexec " + c.qemu + " \"${args[@]}\"\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return nil, err
	}
	c.qemu, c.plan.Disk = script, filepath.Join(b.dir, "slirp.qcow2")
	g, _, err := bareGuest(ctx, "slirp", "10.0.2.2", c, guestapi.Network{Address: "10.0.2.15/24", Gateway: "10.0.2.2", MTU: 1500})
	return g, err
}

// passtGuest is on passt, which speaks the same protocol on the same socket as the
// gate, with the same MTU.
func passtGuest(ctx context.Context, b *bench, c clone) (*netGuest, error) {
	c.plan.Disk = filepath.Join(b.dir, "passt.qcow2")
	g, m, err := bareGuest(ctx, "passt", "10.0.2.2", c, guestapi.Network{Address: "10.0.2.15/24", Gateway: "10.0.2.2", MTU: vm.MTU})
	if err != nil {
		return nil, err
	}
	wire, err := m.Net.(*net.UnixConn).File()
	if err != nil {
		m.stop()
		return nil, err
	}
	defer wire.Close()
	var said bytes.Buffer
	p := exec.CommandContext(ctx, "passt", "--foreground", "--quiet", "--stderr", "--fd", "3", "--ipv4-only",
		"--address", "10.0.2.15", "--netmask", "24", "--gateway", "10.0.2.2", "--tcp-ports", "none", "--udp-ports", "none")
	p.ExtraFiles, p.Stdout, p.Stderr = []*os.File{wire}, &said, &said
	if err := p.Start(); err != nil {
		m.stop()
		return nil, err
	}
	var stopping atomic.Bool
	ended := make(chan struct{})
	go func() {
		err := p.Wait()
		if !stopping.Load() {
			fmt.Fprintf(os.Stderr, "passt ended: %v: %s\n", err, said.String())
		}
		close(ended)
	}()
	g.stop = func() error {
		stopping.Store(true)
		m.stop()
		err := p.Process.Kill()
		<-ended
		if errors.Is(err, os.ErrProcessDone) {
			err = nil // it ends with the machine
		}
		return err
	}
	return g, nil
}

// toolDir is where the tools are in a guest.
const toolDir = "/tmp/tools"

// packTools returns an archive of this host's iperf3 and wrk with the libraries they
// need, so that the guest need not reach a mirror nor be of the same release, and of
// netprobe. A script of each name starts the program with its own libraries.
func packTools(ctx context.Context, dir string) ([]byte, error) {
	files := map[string]string{} // name in the archive → path here
	probe := filepath.Join(dir, "netprobe")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", probe, "rigs/bench/netprobe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build netprobe: %w: %s", err, tail(string(out)))
	}
	files["netprobe"] = probe
	for _, tool := range []string{"iperf3", "wrk"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			return nil, fmt.Errorf("%w: scripts/setup --tests installs it", err)
		}
		out, err := exec.CommandContext(ctx, "ldd", path).Output()
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w", path, err)
		}
		loader := ""
		for line := range strings.Lines(string(out)) {
			for word := range strings.FieldsSeq(line) {
				if !strings.HasPrefix(word, "/") {
					continue
				}
				files["lib/"+filepath.Base(word)] = word
				if strings.HasPrefix(filepath.Base(word), "ld-linux") {
					loader = filepath.Base(word)
				}
				break // the path, or the loader's own line
			}
		}
		if loader == "" {
			return nil, fmt.Errorf("ldd %s: no loader in %q", path, out)
		}
		files["lib/"+tool] = path
		script := filepath.Join(dir, tool+".sh")
		text := fmt.Sprintf("#!/bin/sh\nexec %[1]s/lib/%[2]s --library-path %[1]s/lib %[1]s/lib/%[3]s \"$@\"\n", toolDir, loader, tool)
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			return nil, err
		}
		files[tool] = script
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

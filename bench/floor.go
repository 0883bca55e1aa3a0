package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"rigs/client"
	"rigs/internal/guestapi"
	"rigs/internal/keeper"
	"rigs/internal/keeper/vm"
	"rigs/internal/wire"
)

// measureFloor restores the template that the server uses with nothing but QEMU around it: no server,
// no keeper, no gate, one process here at the other end of its sockets. The
// machine is rekeyed, because no command runs in it before that.
func measureFloor(ctx context.Context, b *bench, n int) ([]float64, error) {
	r, err := b.open(ctx, client.Spec{}, nil)
	if err != nil {
		return nil, err
	}
	clone, err := cloneOf(r)
	if _, cerr := b.Close(ctx, r.ID); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	clone.plan.Disk = filepath.Join(b.dir, "floor.qcow2")
	return times(n, 1, func() error { return clone.restore(ctx) })
}

// clone is how a server's QEMU was started.
type clone struct {
	plan     vm.Plan
	qemu     string
	template string // its directory
	diskMB   int
}

// cloneOf reads from the command line of a rig's QEMU what it was cloned from.
func cloneOf(r client.Rig) (clone, error) {
	argv, err := qemuArgv(r.ID)
	if err != nil {
		return clone{}, err
	}
	option := func(name, key string) string {
		for i, a := range argv[:len(argv)-1] {
			if a != "-"+name {
				continue
			}
			if key == "" {
				return argv[i+1]
			}
			for _, kv := range strings.FieldsFunc(argv[i+1], func(c rune) bool { return c == ',' || c == ' ' }) {
				if v, ok := strings.CutPrefix(kv, key+"="); ok {
					return v
				}
			}
		}
		return ""
	}
	out, err := exec.Command(argv[0], "--version").Output() //nolint:noctx // it prints a line
	if err != nil {
		return clone{}, err
	}
	_, version, _ := strings.Cut(string(out), "version ")
	v, err := vm.ParseVersion(strings.TrimSpace(version))
	if err != nil {
		return clone{}, err
	}
	tsc, err := strconv.Atoi(option("append", "tsc_early_khz"))
	if err != nil && r.Accel == "tcg" {
		return clone{}, fmt.Errorf("tsc_early_khz: %w", err)
	}
	memory := option("object", "mem-path")
	c := clone{qemu: argv[0], template: filepath.Dir(memory), diskMB: r.Resources.DiskMB, plan: vm.Plan{
		Version: v, Accel: r.Accel, MemoryMB: r.Resources.MemoryMB, VCPUs: r.Resources.VCPUs, TSCKHz: tsc, Surface: r.Surface,
		Kernel: option("kernel", ""), Initrd: option("initrd", ""), RootFS: option("blockdev", "file.filename"),
		RootFSType: option("append", "rigs.rootfs"), Memory: vm.Private, MemoryFile: memory,
	}}
	c.plan.Disk = "/" // set by the caller
	if err := c.plan.Check(); err != nil {
		return clone{}, fmt.Errorf("the server's own QEMU: %w", err)
	}
	return c, nil
}

// machine is a clone that runs without a keeper, and the session with its agent.
type machine struct {
	*vm.Machine
	mux *wire.Mux
}

// boot restores the template and rekeys the machine. Its disk is plan.Disk.
func (c clone) boot(ctx context.Context, network guestapi.Network) (*machine, error) {
	if err := os.RemoveAll(c.plan.Disk); err != nil {
		return nil, err
	}
	if err := vm.WriteOverlay(c.plan.Disk, c.diskMB, filepath.Join(c.template, keeper.TemplateDisk), "qcow2"); err != nil {
		return nil, err
	}
	state, err := os.Open(filepath.Join(c.template, keeper.TemplateState))
	if err != nil {
		return nil, err
	}
	defer state.Close()
	v, err := vm.Start(c.plan, vm.Options{QEMU: c.qemu, Dir: filepath.Dir(c.plan.Disk), Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		return nil, err
	}
	m := &machine{Machine: v}
	if err := m.begin(ctx, state, network); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *machine) begin(ctx context.Context, state *os.File, network guestapi.Network) (err error) {
	if err := m.Restore(ctx, state); err != nil {
		return err
	}
	if err := wire.HostHandshake(m.Agent, 10*time.Second); err != nil {
		return m.Failure(err.Error())
	}
	if m.mux, err = wire.NewMux(m.Agent, true); err != nil {
		return err
	}
	ask := guestapi.Rekey{
		Entropy: make([]byte, 64), HostName: "bare", MachineID: hex.EncodeToString(make([]byte, 16)), Secret: "bare", Time: time.Now(),
		Network: network,
	}
	rand.Read(ask.Entropy)
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://guest/v1/rekey", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := m.mux.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("rekey: %s", res.Status)
	}
	return nil
}

// exec runs a command and returns what it said on standard output.
func (m *machine) exec(ctx context.Context, ask guestapi.ExecRequest, input io.Reader) (string, error) {
	conn, err := wire.Dial(ctx, m.mux.Dial, "guest", "/v1/exec", nil)
	if err != nil {
		return "", err
	}
	var out, complaint bytes.Buffer
	ask.Stdin = input != nil
	st, err := guestapi.RunStream(ctx, conn, ask, guestapi.StreamIO{Stdin: input, Stdout: &out, Stderr: &complaint})
	if err == nil && st.Code != 0 {
		err = fmt.Errorf("status %d: %s %s", st.Code, tail(complaint.String()), tail(out.String()))
	}
	return out.String(), err
}

func (m *machine) stop() {
	if m.mux != nil {
		m.mux.Close() //nolint:errcheck // the measurement is over
	}
	m.Kill() //nolint:errcheck // the measurement is over
}

func (c clone) restore(ctx context.Context) error {
	m, err := c.boot(ctx, guestapi.Network{Address: "10.0.0.2/24", Gateway: "10.0.0.1", MTU: vm.MTU})
	if err != nil {
		return err
	}
	defer m.stop()
	out, err := m.exec(ctx, guestapi.ExecRequest{Shell: "echo hello"}, nil)
	if err == nil && out != "hello\n" {
		err = fmt.Errorf("the command said %q", out)
	}
	return err
}

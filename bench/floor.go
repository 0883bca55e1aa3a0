package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"rigs/internal/guestapi"
	"rigs/internal/keeper"
	"rigs/internal/keeper/vm"
	"rigs/internal/keeperapi"
	"rigs/internal/testenv"
	"rigs/internal/wire"
)

// measureFloor restores the template that the server uses with nothing but QEMU around it: no server,
// no keeper, no gate, one process here at the other end of its sockets. The
// machine is rekeyed, because no command runs in it before that.
func measureFloor(ctx context.Context, b *bench, n int) ([]float64, error) {
	env, err := testenv.Host(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := env.Template(ctx)
	if err != nil {
		return nil, err
	}
	plan, err := vm.NewPlan(env.Machine, env.Boot)
	if err != nil {
		return nil, err
	}
	plan.Memory, plan.MemoryFile = vm.Private, filepath.Join(dir, keeper.TemplateMemory)
	plan.Disk = filepath.Join(b.dir, "floor.qcow2")
	return times(n, 1, func() error { return restore(ctx, plan, env.Machine, dir, b.dir) })
}

func restore(ctx context.Context, plan vm.Plan, hw keeperapi.Machine, template, dir string) error {
	if err := os.RemoveAll(plan.Disk); err != nil {
		return err
	}
	if err := vm.WriteOverlay(plan.Disk, hw.DiskMB, filepath.Join(template, keeper.TemplateDisk), "qcow2"); err != nil {
		return err
	}
	state, err := os.Open(filepath.Join(template, keeper.TemplateState))
	if err != nil {
		return err
	}
	defer state.Close()
	m, err := vm.Start(plan, vm.Options{QEMU: hw.QEMU, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		return err
	}
	defer m.Kill() //nolint:errcheck // the measurement is over
	if err := m.Restore(ctx, state); err != nil {
		return err
	}
	if err := wire.HostHandshake(m.Agent, 10*time.Second); err != nil {
		return m.Failure(err.Error())
	}
	mux, err := wire.NewMux(m.Agent, true)
	if err != nil {
		return err
	}
	defer mux.Close()
	ask := guestapi.Rekey{
		Entropy: make([]byte, 64), HostName: "floor", MachineID: hex.EncodeToString(make([]byte, 16)), Secret: "floor", Time: time.Now(),
		Network: guestapi.Network{Address: "10.0.0.2/24", Gateway: "10.0.0.1", MTU: vm.MTU},
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
	res, err := mux.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("rekey: %s", res.Status)
	}
	conn, err := wire.Dial(ctx, mux.Dial, "guest", "/v1/exec", nil)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if _, err := guestapi.RunStream(ctx, conn, guestapi.ExecRequest{Shell: "echo hello"}, guestapi.StreamIO{Stdout: &out}); err != nil {
		return err
	}
	if out.String() != "hello\n" {
		return fmt.Errorf("the command said %q", out.String())
	}
	return nil
}

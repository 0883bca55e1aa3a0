package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"rigs/internal/guestapi"
	"rigs/internal/keeper/confine"
	"rigs/internal/keeper/vm"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/wire"
)

// The files of a template.
const (
	TemplateMemory = "memory"
	TemplateState  = "state"
	TemplateDisk   = "disk.qcow2"
)

// diskName is a rig's throwaway disk in its disk directory.
const diskName = "disk.qcow2"

// booted is a machine whose agent answers.
type booted struct {
	machine *vm.Machine
	agent   *agent
}

func (b booted) kill() {
	b.agent.close()
	_ = b.machine.Kill() // its sockets may be closed already
}

// environment is all that QEMU gets: the mark of its owner, and what a program
// needs to find its libraries.
func environment(cfg keeperapi.Config) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C", "HOME=/nonexistent", keeperapi.OwnerEnv + "=" + cfg.Owner}
}

// start begins to run a plan and hands the machine's wire to attach, which must
// not block.
func start(cfg keeperapi.Config, log *slog.Logger, p vm.Plan, attach func(*vm.Machine)) (*vm.Machine, error) {
	m, err := vm.Start(p, vm.Options{
		QEMU: cfg.Machine.QEMU, Dir: cfg.DiskDir, Env: environment(cfg), Log: log,
		Confine: func() error { return confine.Machine(confine.FilesOf(cfg, TemplateMemory), p.Memory == vm.Private) },
	})
	if err != nil {
		return nil, err
	}
	attach(m)
	return m, nil
}

// cold boots from the image and waits for the agent. The disk must not exist.
//
// A machine that ends by itself while booting is given a second chance when it is
// emulated: with QEMU 10.0.13 and two processors, 1 to 6 of 100 boots of a good image end with a
// kernel module that fails its signature check and a device queue that makes no
// sense (7.2: none of 44; QEMU 10 with one processor: none of 39; measured 2026-11).
func cold(ctx context.Context, cfg keeperapi.Config, log *slog.Logger, p vm.Plan, attach func(*vm.Machine), step func(rig.Step)) (booted, error) {
	ctx, cancel := context.WithTimeout(ctx, coldTimeout)
	defer cancel()
	step(rig.Step{Text: "Booting the kernel"})
	b, ended, err := coldOnce(ctx, cfg, log, p, attach)
	if err == nil || !ended || p.Accel != "tcg" || ctx.Err() != nil {
		return b, err
	}
	log.Warn("the machine ended while booting; trying once more", "err", err)
	step(rig.Step{Text: "The machine ended while booting; trying once more"})
	if err := errors.Join(removeDisk(p.Disk), removeDisk(p.MemoryFile)); err != nil {
		return booted{}, err
	}
	b, _, err = coldOnce(ctx, cfg, log, p, attach)
	return b, err
}

// coldOnce is one boot. ended says that the machine came to its end by itself.
func coldOnce(ctx context.Context, cfg keeperapi.Config, log *slog.Logger, p vm.Plan, attach func(*vm.Machine)) (b booted, ended bool, err error) {
	if err := vm.WriteOverlay(p.Disk, cfg.Machine.DiskMB, cfg.Boot.Blank, "raw"); err != nil {
		return booted{}, false, err
	}
	m, err := start(cfg, log, p, attach)
	if err != nil {
		return booted{}, false, err
	}
	if err := m.WaitAgent(ctx); err != nil {
		select {
		case <-m.Exited():
			ended = true
		default:
		}
		_ = m.Kill() // err is the one to report
		return booted{}, ended, err
	}
	b, err = greet(ctx, m)
	return b, false, err
}

// clone starts from the template and waits for the agent. The disk must not
// exist.
func clone(ctx context.Context, cfg keeperapi.Config, log *slog.Logger, p vm.Plan, attach func(*vm.Machine)) (booted, error) {
	ctx, cancel := context.WithTimeout(ctx, cloneTimeout)
	defer cancel()
	state, err := os.Open(filepath.Join(cfg.Template, TemplateState))
	if err != nil {
		return booted{}, err
	}
	defer state.Close()
	if err := vm.WriteOverlay(p.Disk, cfg.Machine.DiskMB, filepath.Join(cfg.Template, TemplateDisk), "qcow2"); err != nil {
		return booted{}, err
	}
	p.Memory, p.MemoryFile = vm.Private, filepath.Join(cfg.Template, TemplateMemory)
	m, err := start(cfg, log, p, attach)
	if err != nil {
		return booted{}, err
	}
	log.Debug("clone: QEMU is started")
	if err := m.Restore(ctx, state); err != nil {
		_ = m.Kill() // err is the one to report
		return booted{}, err
	}
	log.Debug("clone: the machine runs")
	b, err := greet(ctx, m)
	log.Debug("clone: the agent answers", "err", err)
	return b, err
}

// greet begins the session with the agent of a machine that runs.
func greet(ctx context.Context, m *vm.Machine) (booted, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	a, err := connect(ctx, m.Agent)
	if err != nil {
		p := m.Failure(err.Error())
		_ = m.Kill() // p is the one to report
		return booted{}, p
	}
	return booted{m, a}, nil
}

// boot starts the rig's machine, as a clone if there is a template and it
// works, and gives it its identity.
func (k *keeper) boot(ctx context.Context) (b booted, how string, err error) {
	p, err := vm.NewPlan(k.cfg.Machine, k.cfg.Boot)
	if err != nil {
		return booted{}, "", err
	}
	p.Disk = filepath.Join(k.cfg.DiskDir, diskName)
	if k.cfg.Template != "" {
		k.step(rig.Step{Text: "Cloning the template"})
		b, err = k.own(ctx, func() (booted, error) { return clone(ctx, k.cfg, k.log, p, k.attach) })
		if err == nil || ctx.Err() != nil {
			return b, "clone", err
		}
		k.log.Warn("the template could not be cloned; booting from the image", "template", k.cfg.Template, "err", err)
		k.step(rig.Step{Text: "The template could not be used (" + cut(vm.Clean(err.Error()), 200) + "); booting from the image instead"})
		if err := removeDisk(p.Disk); err != nil {
			return booted{}, "", err
		}
	}
	b, err = k.own(ctx, func() (booted, error) { return cold(ctx, k.cfg, k.log, p, k.attach, k.step) })
	return b, "cold", err
}

// own starts a machine and rekeys it; a machine that does not confirm is ended.
func (k *keeper) own(ctx context.Context, start func() (booted, error)) (booted, error) {
	b, err := start()
	if err != nil {
		return booted{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := b.agent.rekey(ctx, k.identity); err != nil {
		p := b.machine.Failure(err.Error())
		b.kill()
		return booted{}, p
	}
	return b, nil
}

// removeDisk removes a file of a machine's, if there is one.
func removeDisk(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the machine's disk: %w", err)
	}
	return nil
}

// makeTemplate boots a machine that belongs to nobody and freezes it.
func makeTemplate(ctx context.Context, cfg keeperapi.Config, log *slog.Logger, step func(rig.Step)) error {
	p, err := vm.NewPlan(cfg.Machine, cfg.Boot)
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(cfg.TemplateDir, name) }
	p.Disk, p.Memory, p.MemoryFile = in(TemplateDisk), vm.Shared, in(TemplateMemory)
	b, err := cold(ctx, cfg, log, p, drain, step)
	if err != nil {
		return err
	}
	defer b.kill()
	hello, err := answered(ctx, b)
	if err != nil {
		return err
	}
	log.Info("template machine is up", "kernel", hello.Kernel, "agent", hello.Version)
	step(rig.Step{Text: "Freezing the machine"})
	qctx, cancel := context.WithTimeout(ctx, quiesceTimeout)
	defer cancel()
	if err := b.agent.call(qctx, "POST", "/v1/quiesce", nil, nil); err != nil {
		return b.machine.Failure("prepare the machine for freezing: " + err.Error())
	}
	// After quiescing, which drops the page cache: what every clone needs first is
	// then frozen with it.
	if err := warm(qctx, b.agent); err != nil {
		return b.machine.Failure("warm the machine up: " + err.Error())
	}
	if err := b.agent.rest(); err != nil {
		return b.machine.Failure("end the session with the agent: " + err.Error())
	}
	if err := b.machine.Freeze(qctx, in(TemplateState)); err != nil {
		return err
	}
	if err := b.machine.Close(); err != nil {
		return err
	}
	return b.machine.ExitError()
}

// warmUp runs what the first command and the first terminal of a rig run, so
// that a clone finds it in its memory. What the image lacks is left out.
const warmUp = "true; /usr/bin/env true; bash -lc true </dev/null; :"

// warm takes a machine through the steps of a clone's first second. The identity
// that it gets for this is nobody's: each clone is given its own before anything
// else runs in it.
func warm(ctx context.Context, a *agent) error {
	if err := a.rekey(ctx, newIdentity("template")); err != nil {
		return err
	}
	conn, err := wire.Dial(ctx, a.mux.Dial, "guest", "/v1/exec", nil)
	if err != nil {
		return guestError(err)
	}
	_, err = guestapi.RunStream(ctx, conn, guestapi.ExecRequest{Shell: warmUp}, guestapi.StreamIO{})
	return err
}

// probe finds out whether a guest really runs with the configured accelerator.
func probe(ctx context.Context, cfg keeperapi.Config, log *slog.Logger, step func(rig.Step)) error {
	if cfg.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, probeTimeout)
		defer cancel()
	}
	p, err := vm.NewPlan(cfg.Machine, cfg.Boot)
	if err != nil {
		return err
	}
	p.Disk = filepath.Join(cfg.DiskDir, diskName)
	defer func() {
		if err := removeDisk(p.Disk); err != nil {
			log.Warn("probe", "err", err)
		}
	}()
	b, err := cold(ctx, cfg, log, p, drain, step)
	if err != nil {
		return err
	}
	defer b.kill()
	_, err = answered(ctx, b)
	return err
}

// answered is the agent's word that it is there.
func answered(ctx context.Context, b booted) (guestapi.Hello, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	h, err := b.agent.hello(ctx)
	if err != nil {
		return h, b.machine.Failure("the machine's agent did not introduce itself: " + err.Error())
	}
	return h, nil
}

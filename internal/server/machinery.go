package server

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"rigs/internal/host"
	"rigs/internal/image"
	"rigs/internal/keeperapi"
	"rigs/internal/rig"
	"rigs/internal/server/rigs"
	"rigs/internal/template"
)

// machinery turns specifications into what keepers start machines from.
type machinery struct {
	Host
	guest     string // path of rigs-guest
	images    *image.Store
	templates *template.Store

	mu     sync.Mutex
	qemu   host.QEMU
	qemuFI os.FileInfo // of the program that qemu describes
}

// base is what a machine of a kind boots from, with or without a template.
type base struct {
	image  image.Image
	boot   image.Boot
	inputs template.Inputs
}

// findQEMU is host.FindQEMU, which runs the program, remembered for as long as
// the program is the same file.
func (m *machinery) findQEMU(ctx context.Context) (host.QEMU, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.qemuFI != nil {
		fi, err := os.Stat(m.qemu.Path)
		if err == nil && os.SameFile(fi, m.qemuFI) && fi.ModTime().Equal(m.qemuFI.ModTime()) && fi.Size() == m.qemuFI.Size() {
			return m.qemu, nil
		}
	}
	q, err := host.FindQEMU(ctx)
	if err != nil {
		return q, err
	}
	m.qemu = q
	m.qemuFI, err = os.Stat(q.Path)
	return q, err
}

// Supports refuses the surfaces that this version cannot boot.
func (m *machinery) Supports(surface rig.Surface) error {
	if surface != rig.Terminal {
		return rig.Errorf(rig.CodeUnavailable, "no %s can be had: this version boots terminals only: see 'rigs doctor'", surface)
	}
	return nil
}

// base resolves and verifies everything but the template.
func (m *machinery) base(ctx context.Context, surface rig.Surface, engine rig.Engine, ref string, res rig.Resources, step func(rig.Step)) (base, error) {
	if err := m.Supports(surface); err != nil {
		return base{}, err
	}
	q, err := m.findQEMU(ctx)
	if err != nil {
		return base{}, err
	}
	img, boot, err := m.boot(ctx, surface, ref, res, step)
	if err != nil {
		return base{}, err
	}
	khz, err := host.TSCKHz(ctx, m.Layout)
	if err != nil {
		return base{}, rig.Errorf(rig.CodeUnavailable, "the host's clock cannot be measured: %w", err)
	}
	accel, err := m.accel(ctx, q, &boot, false)
	if err != nil {
		if ctx.Err() != nil {
			return base{}, ctx.Err()
		}
		m.Log.Warn("how guests run here could not be kept", "error", err)
	}
	machine := keeperapi.Machine{Surface: surface, Accel: accel.Name, QEMU: q.Path, QEMUVersion: q.Text,
		MemoryMB: res.MemoryMB, VCPUs: res.VCPUs, DiskMB: res.DiskMB, TSCKHz: khz}
	return base{img, boot, template.Inputs{Machine: machine, Digests: boot.Digests, Surface: surface, Engine: engine, CPU: host.CPU(), RunsAs: m.Placement.User(), Image: img.Ref()}}, nil
}

// boot resolves an image and its boot files.
func (m *machinery) boot(ctx context.Context, surface rig.Surface, ref string, res rig.Resources, step func(rig.Step)) (image.Image, image.Boot, error) {
	if ref == "" {
		name, err := m.images.Default(surface)
		if err != nil {
			return image.Image{}, image.Boot{}, err
		}
		if name == "" {
			return image.Image{}, image.Boot{}, rig.Errorf(rig.CodeUnavailable, "there is no image for a %s: name one", surface)
		}
		ref = name
	}
	img, err := m.images.Resolve(ctx, ref)
	if err != nil {
		return image.Image{}, image.Boot{}, err
	}
	if !slices.Contains(img.Surfaces, surface) {
		return image.Image{}, image.Boot{}, rig.FieldErrorf("image", "image %s is not for a %s: see 'rigs image ls'", img.Name, surface)
	}
	if _, err := os.Stat(m.guest); err != nil {
		return image.Image{}, image.Boot{}, rig.Errorf(rig.CodeUnavailable, "the guest's program is not there: %w: put rigs-guest beside rigs, or name it with RIGS_GUEST", err)
	}
	boot, err := m.images.Boot(ctx, img, surface, res.DiskMB, m.guest, step)
	if err != nil {
		return image.Image{}, image.Boot{}, err
	}
	// What flattening the image found out, such as its package mirrors, is
	// known only now.
	img, err = m.images.Resolve(ctx, img.Ref())
	return img, boot, err
}

// accel is how guests run here, by a probe guest where there is doubt. Without
// something to boot it goes by what was found before.
func (m *machinery) accel(ctx context.Context, q host.QEMU, boot *image.Boot, fresh bool) (host.Accel, error) {
	p := host.Probing{QEMU: q, User: m.Placement.User(), Fresh: fresh}
	if boot != nil {
		p.Kernel = boot.Files.Kernel // its path holds its digest
		p.Run = func(ctx context.Context, accel string) error { return m.probe(ctx, q, boot, accel) }
	}
	return host.Probe(ctx, m.Layout, p)
}

func (m *machinery) probe(ctx context.Context, q host.QEMU, boot *image.Boot, accel string) error {
	khz, err := host.TSCKHz(ctx, m.Layout)
	if err != nil {
		return err
	}
	res := m.Config.Resources(rig.Terminal)
	return m.Placement.RunTask(ctx, keeperapi.Config{Mode: keeperapi.ModeProbe, Boot: boot.Files, LogLevel: m.Config.LogLevel,
		Machine: keeperapi.Machine{Surface: rig.Terminal, Accel: accel, QEMU: q.Path, QEMUVersion: q.Text,
			MemoryMB: res.MemoryMB, VCPUs: res.VCPUs, DiskMB: res.DiskMB, TSCKHz: khz}}, nil)
}

// template returns the directory of the template for b, which is made first if
// it is missing.
func (m *machinery) template(ctx context.Context, b base, step func(rig.Step)) (string, error) {
	key := template.Key(b.inputs)
	dir, err := m.templates.Lookup(ctx, key)
	if err == nil {
		return dir, nil
	}
	if !errors.Is(err, template.ErrMissing) {
		return "", err
	}
	m.Log.Info("making a template", "key", key, "why", err)
	step(rig.Step{Text: "Making a template"})
	return m.templates.Make(ctx, key, b.inputs, func(ctx context.Context, dir string) error {
		return m.Placement.RunTask(ctx, keeperapi.Config{
			Mode: keeperapi.ModeTemplate, TemplateDir: dir, Machine: b.inputs.Machine, Boot: b.boot.Files,
			HostName: string(b.inputs.Surface), LogLevel: m.Config.LogLevel,
		}, func(e keeperapi.Event) {
			if e.Step != nil {
				step(*e.Step)
			}
		})
	})
}

// Prepare makes or finds everything that a machine is started from. Where no
// template can be had the machine boots from its image, and a step says why.
func (m *machinery) Prepare(ctx context.Context, s rig.Spec, res rig.Resources, step func(rig.Step)) (rigs.Prepared, error) {
	step(rig.Step{Text: "Checking the image"})
	b, err := m.base(ctx, s.Surface, s.Engine, s.Image, res, step)
	if err != nil {
		return rigs.Prepared{}, err
	}
	p := rigs.Prepared{Image: b.image.Ref(), Machine: b.inputs.Machine, Boot: b.boot.Files, Egress: b.image.AptHosts}
	if s.Cold {
		return p, nil
	}
	p.Template, err = m.template(ctx, b, step)
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	if err != nil {
		m.Log.Warn("no template: the machine boots from its image", "surface", s.Surface, "error", err)
		step(rig.Step{Text: "Booting from the image, as no template can be had: " + err.Error()})
		p.Template = ""
	}
	return p, nil
}

package server

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rigs/internal/doctor"
	"rigs/internal/host"
	"rigs/internal/image"
	"rigs/internal/policy"
	"rigs/internal/rig"
	"rigs/internal/serverapi"
	"rigs/internal/template"
)

// realParts are this host's QEMU, images and templates.
func realParts(h Host) (Parts, error) {
	if h.Config.QEMU != "" {
		// The finder reads its variable; a setting from the file or a flag
		// must count for it, too.
		if err := os.Setenv("RIGS_QEMU", h.Config.QEMU); err != nil {
			return Parts{}, err
		}
	}
	guest := h.Config.Guest
	if guest == "" {
		self, err := os.Executable()
		if err != nil {
			return Parts{}, err
		}
		guest = filepath.Join(filepath.Dir(self), "rigs-guest")
	}
	guest, err := filepath.Abs(guest)
	if err != nil {
		return Parts{}, err
	}
	ts := template.NewStore(h.Layout)
	if uid, gid, ok := h.Placement.TemplateIDs(); ok {
		ts = ts.ClonesAs(uid, gid)
	}
	m := &machinery{Host: h, guest: guest, images: image.NewStore(h.Layout), templates: ts}
	return Parts{Preparer: m, Policy: egressPolicy{}, Images: imageParts{m}, Templates: templateParts{m}, Doctor: doctorPart{m}}, nil
}

// egressPolicy is package policy.
type egressPolicy struct{}

func (egressPolicy) Canonical(pattern string) (string, error) {
	p, err := policy.Parse(pattern)
	return p.String(), err
}

func (egressPolicy) Defaults(s rig.Surface) []string { return policy.Defaults(s) }

// Covers knows of wildcards only when they are on the list as they are: what it
// does not see as covered is asked for.
func (egressPolicy) Covers(list []string, pattern string) bool {
	p, err := policy.Parse(pattern)
	if err != nil {
		return false
	}
	l, err := policy.ParseList(list)
	if err != nil {
		return false
	}
	if slices.Contains(l.Strings(), p.String()) {
		return true
	}
	if strings.ContainsAny(p.String(), "* ") {
		return false
	}
	host, ports, found := strings.Cut(p.String(), ":")
	if !found {
		ports = "80,443"
	}
	for s := range strings.SplitSeq(ports, ",") {
		port, err := strconv.Atoi(s)
		if err != nil || !l.Admits(host, port) {
			return false
		}
	}
	return true
}

// imageParts is package image.
type imageParts struct{ m *machinery }

func (p imageParts) List(ctx context.Context) ([]serverapi.Image, error) {
	l, err := p.m.images.List(ctx)
	out := make([]serverapi.Image, len(l))
	for i, x := range l {
		out[i] = serverapi.Image(x)
	}
	return out, err
}

func (p imageParts) Build(ctx context.Context, name string, noCache bool, step func(rig.Step)) (serverapi.Image, error) {
	img, err := p.m.images.Build(ctx, name, image.BuildOptions{NoCache: noCache}, step)
	if err != nil {
		return serverapi.Image{}, err
	}
	l, err := p.List(ctx)
	if err != nil {
		return serverapi.Image{}, err
	}
	for _, x := range l {
		if x.Digest == img.Digest {
			return x, nil
		}
	}
	return serverapi.Image{}, rig.Errorf(rig.CodeConflict, "image %s was removed while it was built", name)
}

func (p imageParts) Remove(ctx context.Context, name string) error {
	return p.m.images.Remove(ctx, name)
}

// templateParts is package template, with keepers that make them.
type templateParts struct{ m *machinery }

func (p templateParts) List(ctx context.Context) ([]serverapi.Template, error) {
	return p.m.templates.List(ctx)
}

func (p templateParts) Make(ctx context.Context, t serverapi.MakeTemplate, step func(rig.Step)) (serverapi.Template, error) {
	res := p.m.Config.Resources(t.Surface)
	if t.MemoryMB > 0 {
		res.MemoryMB = t.MemoryMB
	}
	if t.VCPUs > 0 {
		res.VCPUs = t.VCPUs
	}
	b, err := p.m.base(ctx, t.Surface, t.Engine, t.Image, res, step)
	if err != nil {
		return serverapi.Template{}, err
	}
	key := template.Key(b.inputs)
	if t.Fresh {
		if err := p.m.templates.Remove(ctx, key); err != nil && rig.CodeOf(err) != rig.CodeNotFound {
			return serverapi.Template{}, err
		}
	}
	if _, err := p.m.template(ctx, b, step); err != nil {
		return serverapi.Template{}, err
	}
	l, err := p.m.templates.List(ctx)
	if err != nil {
		return serverapi.Template{}, err
	}
	for _, x := range l {
		if x.Key == key {
			return x, nil
		}
	}
	return serverapi.Template{}, rig.Errorf(rig.CodeConflict, "template %s was removed as soon as it was made", key)
}

func (p templateParts) Remove(ctx context.Context, key string) error {
	return p.m.templates.Remove(ctx, key)
}

// doctorPart is package doctor.
type doctorPart struct{ m *machinery }

func (p doctorPart) Report(ctx context.Context, fresh bool) (serverapi.Doctor, error) {
	o := doctor.Options{
		Layout: p.m.Layout,
		Accel: func(ctx context.Context, q host.QEMU) (host.Accel, error) {
			_, boot, err := p.m.boot(ctx, rig.Terminal, "", p.m.Config.Resources(rig.Terminal), func(rig.Step) {})
			if err != nil { // the report says so where it lists the image
				return p.m.accel(ctx, q, nil, fresh)
			}
			return p.m.accel(ctx, q, &boot, fresh)
		},
		Images: imageParts(p).List,
		Guest:  p.m.guest,
		RunsAs: p.m.Placement.User(),
		Enter:  p.m.Placement.CanEnter,
	}
	return doctor.Report(ctx, o), nil
}

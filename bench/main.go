// Command bench measures every number that docs/performance.md quotes, in one
// run, against a real server with real machines. Run it with make bench.
//
// It starts a server of its own on a data directory of its own; images and templates come
// from the cache that the test suites use, so that making them is not measured.
// With -write it puts its table into docs/performance.md.
//
// Compare figures within one run only: a machine that is busy or otherwise
// clocked makes all of them different.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// row is one line of the table. Values are one figure for each repetition.
type row struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	Aim    string    `json:"aim,omitempty"`
}

func (r row) median() float64 {
	v := slices.Sorted(slices.Values(r.Values))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// report collects rows and prints them as they come.
type report struct{ rows []row }

func (p *report) add(name, unit, aim string, values ...float64) {
	r := row{name, unit, values, aim}
	p.rows = append(p.rows, r)
	fmt.Fprintf(os.Stderr, "%-62s %s\n", name, r.cell())
}

func (p *report) median(name string) float64 {
	for _, r := range p.rows {
		if r.Name == name {
			return r.median()
		}
	}
	panic("bench: no row " + name)
}

func (r row) cell() string {
	f := func(x float64) string {
		switch {
		case x >= 100:
			return fmt.Sprintf("%.0f", x)
		case x >= 10:
			return fmt.Sprintf("%.1f", x)
		}
		return fmt.Sprintf("%.2f", x)
	}
	if len(r.Values) == 1 {
		return f(r.Values[0]) + " " + r.Unit
	}
	return fmt.Sprintf("%s %s (%s–%s, n=%d)", f(r.median()), r.Unit, f(slices.Min(r.Values)), f(slices.Max(r.Values)), len(r.Values))
}

func (p *report) markdown() string {
	var b strings.Builder
	b.WriteString("| what | median (range, repetitions) | aim |\n|---|---|---|\n")
	for _, r := range p.rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Name, r.cell(), r.Aim)
	}
	return b.String()
}

var (
	repeat  = flag.Int("n", 7, "repetitions of short measurements")
	only    = flag.String("only", "", "run only the group with this name")
	asJSON  = flag.Bool("json", false, "print JSON")
	write   = flag.Bool("write", false, "put the table into docs/performance.md")
	rigsBin = flag.String("rigs", "bin/rigs", "the binary to measure")
)

// group is some measurements that belong together.
type group struct {
	name string
	run  func(context.Context, *bench, *report) error
}

var groups = []group{
	{"open", measureOpen},
	{"exec", measureExec},
	{"copy", measureCopy},
	{"memory", measureMemory},
	{"authority", measureAuthority},
	{"network", measureNetwork},
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	b, err := start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	all := &report{}
	for _, g := range groups {
		if *only != "" && *only != g.name {
			continue
		}
		rep := &report{}
		if err := g.run(ctx, b, rep); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
		all.rows = append(all.rows, rep.rows...)
		if *write {
			if err := intoPage("docs/performance.md", g.name, rep.markdown(), b.machine); err != nil {
				return err
			}
		}
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(all.rows)
	}
	fmt.Print(all.markdown())
	return nil
}

// intoPage replaces what stands between the markers of a group in a page. Each group
// has a table of its own, with its own date: one can be measured alone.
func intoPage(page, group, table, machine string) error {
	begin, end := "<!-- bench "+group+" begin -->\n", "<!-- bench "+group+" end -->"
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok1 := bytes.Cut(old, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok1 || !ok2 {
		return fmt.Errorf("%s: the markers %q and %q are not there", page, begin, end)
	}
	flags := strings.Join(os.Args[1:], " ")
	middle := fmt.Sprintf("Measured %s by `make bench BENCHFLAGS=%q` on %s.\n\n%s", time.Now().UTC().Format(time.DateOnly), flags, machine, table)
	return os.WriteFile(page, slices.Concat(head, []byte(begin), []byte(middle), []byte(end), tail), 0o644)
}

// seconds times f.
func seconds(f func() error) (float64, error) {
	t := time.Now()
	err := f()
	return time.Since(t).Seconds(), err
}

// times runs f n times and returns how long each took, in unit (seconds times scale).
func times(n int, scale float64, f func() error) ([]float64, error) {
	out := make([]float64, 0, n)
	for range n {
		s, err := seconds(f)
		if err != nil {
			return nil, err
		}
		out = append(out, s*scale)
	}
	return out, nil
}

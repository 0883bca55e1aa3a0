package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"rigs/internal/rig"
)

// What is over at once needs no bar, and no line.
const (
	quiet      = 300 * time.Millisecond // on a terminal
	quietPlain = time.Second            // elsewhere
)

// progress shows long work: a bar on a terminal, one plain line for each step
// elsewhere. Steps come from servers and guests; they are made plain.
type progress struct {
	w   io.Writer
	tty bool
	// keep leaves a line with its time for every step, however short.
	keep bool

	mu    sync.Mutex
	began time.Time
	step  rig.Step
	said  bool // the plain line was printed
	// several is set when the step's text has changed: it is about many items.
	several bool
	bar     *progressbar.ProgressBar
	tick    chan struct{} // ends the spinner
	ended   sync.WaitGroup
}

func (a *app) progress() *progress {
	return &progress{w: a.err, tty: isTerminal(a.err)}
}

// isTerminal reports whether a stream is one, and one that can move its cursor.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Step begins the next step, or advances the current one when the text is the
// same.
func (p *progress) Step(s rig.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Text == p.step.Text && !p.began.IsZero() {
		p.advance(s)
		return
	}
	if p.sameBar(s) {
		p.several = true
		p.advance(s)
		return
	}
	p.finish(true)
	p.step, p.began, p.said, p.several = s, time.Now(), false, false
	p.spin()
}

// sameBar reports whether s goes on counting what the current step counts, only
// with another item's name: "Unpack git", 7 of 83 packages.
func (p *progress) sameBar(s rig.Step) bool {
	return p.tick != nil && s.Total > 0 && s.Total == p.step.Total && s.Unit == p.step.Unit && s.Unit != "bytes" && s.Done >= p.step.Done
}

// label is the words for the current step once it is over.
func (p *progress) label() string {
	if !p.several {
		return p.step.Text
	}
	// The last name says nothing about all of them: leave it off.
	text, _, _ := cutLast(p.step.Text, " ")
	return fmt.Sprintf("%s %d %s", text, p.step.Done, p.step.Unit)
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// text is Step for work without an amount.
func (p *progress) text(format string, args ...any) {
	p.Step(rig.Step{Text: fmt.Sprintf(format, args...)})
}

// rename gives the current step other words, for the line that it leaves.
func (p *progress) rename(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step.Text = fmt.Sprintf(format, args...)
}

// Done ends the last step well.
func (p *progress) Done() { p.end(true) }

// Stop ends showing without saying that it went well.
func (p *progress) Stop() { p.end(false) }

func (p *progress) end(ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish(ok)
	p.began, p.step = time.Time{}, rig.Step{}
}

func (p *progress) advance(s rig.Step) {
	p.step = s
	if p.bar == nil {
		return
	}
	if s.Total <= 0 {
		return
	}
	p.bar.Describe(plain(s.Text))
	if p.bar.GetMax64() != s.Total {
		_ = p.bar.Clear() // a bar that fails to draw is no failure of the work
		p.bar = newBar(p.w, s)
	}
	_ = p.bar.Set64(min(s.Done, s.Total))
}

// spin shows the step after the quiet time and keeps its bar moving. Called
// locked.
func (p *progress) spin() {
	stop := make(chan struct{})
	p.tick = stop
	p.ended.Go(func() {
		t := time.NewTicker(quiet / 3)
		defer t.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-t.C:
				p.draw(stop, now)
			}
		}
	})
}

func (p *progress) draw(stop chan struct{}, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.tty {
		if p.tick == stop && !p.said && now.Sub(p.began) >= quietPlain {
			p.said = true
			fmt.Fprintf(p.w, "%s ...\n", plain(p.step.Text))
		}
		return
	}
	if p.tick != stop || now.Sub(p.began) < quiet {
		return
	}
	if p.bar == nil {
		p.bar = newBar(p.w, p.step)
		p.advance(p.step)
	}
	_ = p.bar.RenderBlank()
}

func newBar(w io.Writer, s rig.Step) *progressbar.ProgressBar {
	total := s.Total
	if total <= 0 {
		total = -1
	}
	opts := []progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(plain(s.Text)),
		progressbar.OptionSpinnerType(14),
		progressbar.OptionShowBytes(s.Unit == "bytes"),
		progressbar.OptionSetWidth(24),
		progressbar.OptionSetSpinnerChangeInterval(0), // its own goroutine would write after us
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetPredictTime(s.Total > 0),
		progressbar.OptionThrottle(65 * time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerPadding: "░", BarStart: "", BarEnd: ""}),
	}
	if s.Total > 0 {
		opts = append(opts, progressbar.OptionShowCount())
	}
	b := progressbar.NewOptions64(total, opts...)
	b.StartWithoutRender()
	return b
}

// finish ends the current step. Called locked.
func (p *progress) finish(ok bool) {
	if p.began.IsZero() {
		return
	}
	took := time.Since(p.began)
	if p.tick != nil {
		close(p.tick)
		p.tick = nil
	}
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
	if !p.keep {
		return
	}
	mark, lead := "✓", ""
	if !ok {
		mark = "✗"
	}
	if p.tty {
		lead = "\r\x1b[K"
	}
	fmt.Fprintf(p.w, "%s%s %s  %s\n", lead, mark, plain(p.label()), seconds(took))
}

// Wait returns when the spinner has ended. Call it after Done or Stop.
func (p *progress) Wait() { p.ended.Wait() }

package rig

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
)

func TestPhasesMoveByTheTable(t *testing.T) {
	allowed := map[string]bool{}
	for from, tos := range transitions {
		if !from.Valid() {
			t.Errorf("%q is not valid", from)
		}
		for _, to := range tos {
			if !to.Valid() {
				t.Errorf("%s → %q: not a phase", from, to)
			}
			allowed[string(from)+">"+string(to)] = true
		}
	}
	for from := range transitions {
		for to := range transitions {
			if got := from.CanBecome(to); got != allowed[string(from)+">"+string(to)] {
				t.Errorf("%s → %s: %v", from, to, got)
			}
		}
		if from.CanBecome(Provisioning) {
			t.Errorf("%s → provisioning: a machine is never replaced by a fresh one", from)
		}
		if from != Closed && from != Closing && !from.CanBecome(Closing) {
			t.Errorf("a %s rig cannot be closed", from)
		}
	}
	if Failed.Live() || Closed.Live() || Closing.Live() || !Parked.Live() {
		t.Error("Live is wrong about who has a machine")
	}
}

func TestProblemsCarryTheirCauseAndStatus(t *testing.T) {
	p := Errorf(CodeNotFound, "rig x: %w", io.EOF)
	if !errors.Is(p, io.EOF) || p.Detail != "rig x: EOF" || p.GetStatus() != http.StatusNotFound {
		t.Errorf("%+v", p)
	}
	if got := AsProblem(fmt.Errorf("open: %w", p)); got != p {
		t.Errorf("AsProblem of a wrapped problem = %v", got)
	}
	if CodeOf(io.EOF) != CodeInternal || CodeOf(nil) != "" || AsProblem(nil) != nil {
		t.Error("errors without a code are internal, nil has none")
	}
	for code := range status {
		if s := code.HTTPStatus(); s < 400 || s > 599 {
			t.Errorf("%s: status %d", code, s)
		}
	}
}

func TestIDsAndNames(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewID()
		if !ValidID(id) || seen[id] {
			t.Fatalf("id %q: invalid or drawn twice", id)
		}
		seen[id] = true
	}
	for name, ok := range map[string]bool{
		"welcome": true, "pr-12": true, "a.b_c": true, "": false, "A": false, "-x": false, "../x": false, "a..b": false, "a/b": false, "a b": false,
	} {
		if ValidName(name) != ok {
			t.Errorf("ValidName(%q) = %v", name, !ok)
		}
	}
	for _, s := range Surfaces {
		if got, err := ParseSurface(string(s)); err != nil || got != s {
			t.Errorf("%s: %v", s, err)
		}
		s.Defaults()
	}
	if _, err := ParseSurface("toaster"); CodeOf(err) != CodeInvalidRequest {
		t.Errorf("toaster: %v", err)
	}
	if got := (&Rig{Space: "s", Surface: Browser, Engine: Firefox}).Ref(); got != "s/browser:firefox" {
		t.Errorf("Ref = %q", got)
	}
}

package kube

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// The annotations of a workload that announce a planned roll-out.
const (
	// WindowAnnotation is the time of the roll-out: START/END, times by RFC 3339.
	WindowAnnotation = "sigma-scheduler.io/window"
	// ExpectedAnnotation is the number of pods that the workload has in the end.
	ExpectedAnnotation = "sigma-scheduler.io/expected"
)

// longestWindow bounds a window: in a longer one, the elapsed share does not predict the next
// pods.
const longestWindow = 30 * 24 * time.Hour

// A Fault is an annotation of a workload that is ignored.
type Fault struct {
	Workload v1.ObjectReference
	Text     string // annotation and reason
}

func (f *Fault) String() string {
	return fmt.Sprintf("%s/%s/%s: %s", f.Workload.Namespace, f.Workload.Kind, f.Workload.Name, f.Text)
}

// A plan holds the roll-out that the annotations of a workload announce.
type plan struct {
	workload v1.ObjectReference
	window   *ledger.Window // nil = no window
	expected *int32         // nil = no number
	faults   []Fault
}

func planOf(version, kind string, meta *metav1.ObjectMeta) plan {
	p := plan{workload: v1.ObjectReference{APIVersion: version, Kind: kind, Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID}}
	if text, ok := meta.Annotations[WindowAnnotation]; ok {
		var err error
		if p.window, err = parseWindow(text); err != nil {
			p.refuse(WindowAnnotation, text, err.Error())
		}
	}
	if text, ok := meta.Annotations[ExpectedAnnotation]; ok {
		if n, err := strconv.ParseInt(text, 10, 32); err != nil || n < 1 {
			p.refuse(ExpectedAnnotation, text, "want a whole number from 1 to 2147483647")
		} else {
			p.expected = new(int32(n))
		}
	}
	return p
}

// mostShown bounds the part of an annotation that a fault shows, in bytes.
const mostShown = 64

func (p *plan) refuse(annotation, text, why string) {
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	p.faults = append(p.faults, Fault{p.workload, fmt.Sprintf("the annotation %s %q is ignored: %s", annotation, text, why)})
}

func parseWindow(text string) (*ledger.Window, error) {
	from, to, ok := strings.Cut(text, "/")
	start, err := time.Parse(time.RFC3339, from)
	end, err2 := time.Parse(time.RFC3339, to)
	switch {
	case !ok || err != nil || err2 != nil:
		return nil, errors.New("want START/END, each a time like 2026-05-04T08:00:00Z")
	case !start.Before(end):
		return nil, errors.New("it does not end after its start")
	case end.Sub(start) > longestWindow:
		return nil, errors.New("it is longer than 30 days")
	}
	return &ledger.Window{Start: seconds(start), End: seconds(end)}, nil
}

// seconds returns the time in seconds since 1970, in the resolution of the decision log.
func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// setWindows emits the windows that are new, changed or removed; plans are by group. Workloads of
// one group have one window, so where several differ there is none.
func (t *Translator) setWindows(plans map[string][]plan) (faults []Fault) {
	now := map[string]ledger.Window{}
	for group, list := range plans {
		window, differ := (*ledger.Window)(nil), false
		for _, p := range list {
			faults = append(faults, p.faults...)
			if p.window != nil {
				differ = differ || window != nil && *window != *p.window
				window = p.window
			}
		}
		switch {
		case differ:
			for _, p := range list {
				if p.window != nil {
					faults = append(faults, Fault{p.workload, fmt.Sprintf("the annotation %s is ignored: another workload of the app %s has another window", WindowAnnotation, group)})
				}
			}
		case window != nil:
			now[group] = *window
		}
	}
	changed := map[string]*ledger.Window{}
	before := t.ledger.Windows()
	for group, w := range now {
		if old, ok := before[group]; !ok || old != w {
			changed[group] = &w
		}
	}
	for group := range before {
		if _, ok := now[group]; !ok {
			changed[group] = nil
		}
	}
	if len(changed) > 0 {
		t.emit(&ledger.Event{Kind: ledger.KindWindow, Windows: changed})
	}
	slices.SortFunc(faults, func(a, b Fault) int { return cmp.Compare(a.String(), b.String()) })
	return faults
}

package record

import (
	"fmt"
	"math"
	"time"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/history"
)

// A Window is a part of a log, with the files that hold it.
type Window struct {
	Files       []string
	From, Until time.Time // until is excluded
}

// Window finds the files of a part of the log. Each can be read alone, so that none before it is
// needed.
func (l *Log) Window(from, until time.Time) (Window, error) {
	all, err := files(l.path)
	if err != nil {
		return Window{}, err
	}
	w := Window{From: from, Until: until}
	begins := func(name string) float64 {
		if b, ok := l.begins[name]; ok {
			return b.at
		}
		return math.Inf(1) // newer than the last poll
	}
	for i, name := range all {
		later := i+1 < len(all) && begins(all[i+1]) <= seconds(from) // the next one holds the beginning, too
		if begins(name) < seconds(until) && !later {
			w.Files = append(w.Files, name)
		}
	}
	if len(w.Files) == 0 {
		return Window{}, fmt.Errorf("%s: nothing is recorded from %s to %s", l.path, from.Format(time.RFC3339), until.Format(time.RFC3339))
	}
	return w, nil
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// Trace reads the window as a trace, whose time 0 is From. It may take long, and serves any goroutine.
func (w Window) Trace(name string) (*trace.Trace, error) {
	from, err := history.ParseTime(w.From.Format(time.RFC3339))
	if err != nil {
		return nil, err
	}
	until, err := history.ParseTime(w.Until.Format(time.RFC3339))
	if err != nil {
		return nil, err
	}
	h, err := history.Read(w.Files, from, until)
	if err != nil {
		return nil, err
	}
	t, _, err := h.Trace(history.Options{Name: name, Method: "sigma-pilot"})
	return t, err
}

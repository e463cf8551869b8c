package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/history"
)

// A Window is a part of a log, with the files that hold it.
type Window struct {
	Files       []string
	From, Until time.Time // until is excluded
}

// ErrNothing is the error of a window without events.
var ErrNothing = errors.New("nothing is recorded")

// Window finds the files of a part of the record: those of segments, and of the day in progress. It begins later
// than from if whole days at its beginning have a gap or no file: the state in them is unknown.
func (l *Log) Window(from, until time.Time) (Window, error) {
	w := Window{From: from, Until: until}
	for _, g := range l.cut.to.List() {
		name, end := l.cut.to.events(&g), g.Start.Add(day)
		if !g.Start.Before(until) || !end.After(from) {
			continue
		}
		_, err := os.Stat(name)
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return Window{}, err
		case len(w.Files) == 0 && !g.Start.Before(from) && (err != nil || g.Gap != ""):
			w.From = end
		case err == nil: // a missed day has no file
			w.Files = append(w.Files, name)
		}
	}
	if c := &l.cut; c.file != nil && seconds(until) > float64(c.day)*day.Seconds() {
		if c.fault != nil {
			return Window{}, c.fault
		}
		if c.fault = c.flush(); c.fault != nil {
			return Window{}, c.fault
		}
		w.Files = append(w.Files, c.today())
	}
	if len(w.Files) == 0 {
		return Window{}, fmt.Errorf("%s: %w from %s to %s", l.path, ErrNothing, from.Format(time.RFC3339), until.Format(time.RFC3339))
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

package history

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A Time is one end of a window: a moment, or the time since the log's first event.
// The zero Time leaves the window open on its side.
type Time struct {
	at    time.Time
	since time.Duration
	set   bool
}

// ParseTime reads a duration, such as 90m or 24h, or a time by RFC 3339.
func ParseTime(text string) (Time, error) {
	if text == "" {
		return Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < 0 {
			return Time{}, fmt.Errorf("%s: want 0 or more after the beginning of the log", text)
		}
		return Time{since: d, set: true}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return Time{}, fmt.Errorf("%q: want a duration after the beginning of the log, such as 36h, or a time such as 2026-05-04T12:00:00Z", text)
	}
	return Time{at: at, set: true}, nil
}

// milliseconds returns the moment in a log that begins at some moment.
func (t Time) milliseconds(began int64) int64 {
	if t.at.IsZero() {
		return began + t.since.Milliseconds()
	}
	return t.at.UnixMilli()
}

// Read builds the history of a log from its files, in order. Pods already placed at
// `from` are its initial state; `until` is excluded.
func Read(paths []string, from, until Time) (*History, error) {
	h := New()
	h.needsPods = true
	err := h.read(paths, func(began int64) error { return h.open(began, from, until) })
	if err == nil && len(h.starts) == 0 {
		return nil, fmt.Errorf("%s: nothing starts there: not a decision log", paths[0])
	}
	return h, err
}

// ReadAll builds the history of a log of one file, which may be empty, and have no pods.
func ReadAll(path string) (*History, error) {
	h := New()
	return h, h.read([]string{path}, func(int64) error { return nil })
}

// read adds the events of files. begin is called with the time of the first event.
func (h *History) read(paths []string, begin func(began int64) error) (err error) {
	events := ledger.OpenFiles(paths...)
	defer func() { err = errors.Join(err, events.Close()) }()
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if len(h.starts) == 0 {
			if err := begin(milliseconds(e.Time)); err != nil {
				return fmt.Errorf("%s: %w", events.Name(), err)
			}
		}
		if err := h.Add(e); err != nil {
			return fmt.Errorf("%s:%d: %w", events.Name(), events.Line(), err)
		}
	}
}

// open sets the window of a log that begins at some moment.
func (h *History) open(began int64, from, until Time) error {
	if at := from.milliseconds(began); from.set && at > began {
		h.from = at
	}
	if until.set {
		h.until = until.milliseconds(began)
	}
	switch {
	case h.until <= began:
		return fmt.Errorf("the window is empty: the log begins at %s", instant(began))
	case h.until <= h.from:
		return fmt.Errorf("the window is empty: it would be from %s until %s", instant(h.from), instant(h.until))
	}
	return nil
}

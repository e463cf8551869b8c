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
func Read(paths []string, from, until Time) (h *History, err error) {
	h = New()
	h.needsPods = true
	events := ledger.OpenFiles(paths...)
	defer func() { err = errors.Join(err, events.Close()) }()
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF) && len(h.starts) == 0:
			return nil, fmt.Errorf("%s: nothing starts there: not a decision log", paths[0])
		case errors.Is(err, io.EOF):
			return h, nil
		case err != nil:
			return nil, err
		}
		if len(h.starts) == 0 {
			if err := h.open(milliseconds(e.Time), from, until); err != nil {
				return nil, fmt.Errorf("%s: %w", events.Name(), err)
			}
		}
		if err := h.Add(e); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", events.Name(), events.Line(), err)
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

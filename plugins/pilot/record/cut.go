package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const (
	// batch is how many events wait for one write.
	batch = 256
	// again is the number of polls before a failed write is tried again.
	again = 12
)

// A cutter writes the events of the day that is under way, and makes a segment of it when it is over.
type cutter struct {
	to *Segments
	// fault is why nothing is written; nil = it is. polls counts those since.
	fault error
	polls int

	day     int64 // under way, since 1970; it means nothing before begun
	from    int64 // the first that becomes a segment
	begun   bool
	whole   bool // the day is written from midnight on
	file    *ledger.Log
	waiting []*ledger.Event
	events  int              // of the day, without those that describe its beginning
	names   map[string]named // of pods, by UID
}

// named holds the fields of a pod that the ledger lacks.
type named struct {
	pod     string
	created int64
}

func newCutter(to *Segments) cutter { return cutter{to: to, names: map[string]named{}} }

func (c *cutter) today() string { return filepath.Join(c.to.dir, todayFile) }

// close closes the file of the day that is under way. It is written again from the log.
func (c *cutter) close() {
	if c.file != nil {
		_ = c.file.Close() // its content is in the log
		c.file = nil
	}
}

// begin begins a day with a description of the cluster. Without a description the day's file begins
// at the next start.
func (c *cutter) begin(d int64, description []*ledger.Event) error {
	c.close()
	c.day, c.events, c.waiting = d, 0, nil
	if err := os.Remove(c.today()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if d < c.from || len(description) == 0 {
		return nil
	}
	return c.open(description)
}

func (c *cutter) open(events []*ledger.Event) (err error) {
	if c.file, err = ledger.OpenLog(c.today()); err != nil {
		return err
	}
	return c.file.Write(events...)
}

// take writes an event of the day.
func (c *cutter) take(e *ledger.Event, at float64) error {
	if e.Kind == ledger.KindArrive || e.Kind == ledger.KindDecide || e.Kind == ledger.KindPlace {
		n := c.names[e.UID]
		if e.Pod != "" {
			n.pod = e.Pod
		}
		if e.Created != 0 {
			n.created = e.Created
		}
		c.names[e.UID] = n
	}
	if e.Kind == ledger.KindRemove {
		defer delete(c.names, e.UID)
	}
	if c.day < c.from {
		return nil
	}
	c.events++
	copied := *e
	copied.Time = at
	if e.Decision != nil { // the other fields only serve to recompute the decision
		copied.Decision = &ledger.Decision{Cause: e.Cause, PolicyDigest: e.PolicyDigest, Mode: e.Mode}
	}
	if c.file == nil {
		if e.Kind != ledger.KindStart {
			return nil // without the state before it, it is useless
		}
		return c.open([]*ledger.Event{&copied})
	}
	c.waiting = append(c.waiting, &copied)
	if len(c.waiting) < batch {
		return nil
	}
	return c.flush()
}

func (c *cutter) flush() error {
	if c.file == nil || len(c.waiting) == 0 {
		return nil
	}
	err := c.file.Write(c.waiting...)
	c.waiting = c.waiting[:0]
	return err
}

// end makes a segment of the day.
func (c *cutter) end(gap string) error {
	if err := c.flush(); err != nil {
		return err
	}
	if !c.whole {
		return nil
	}
	events := ""
	if c.file != nil {
		events = c.today()
	}
	return c.to.add(Segment{Start: moment(float64(c.day) * day.Seconds()), Gap: gap, Events: c.events}, events)
}

// turn makes segments of the days that are over at a time, which is that of the next event.
func (l *Log) turn(at float64) error {
	c, now := &l.cut, dayOf(at)
	if !c.begun {
		c.first(at, l.gaps)
	}
	for c.day < now {
		if c.day >= c.from {
			if err := c.end(l.gaps[c.day]); err != nil {
				return err
			}
			delete(l.gaps, c.day)
		}
		next := c.day + 1
		description := l.describe(float64(next) * day.Seconds())
		if description == nil && l.gaps[next] == "" {
			l.gaps[next] = "what stood at its beginning is not known: " + l.why
		}
		if err := c.begin(next, description); err != nil {
			return err
		}
		c.whole = true
	}
	return nil
}

// first begins with the first event that was read: with its day, or with the one after the newest segment.
func (c *cutter) first(at float64, gaps map[int64]string) {
	c.begun, c.day = true, dayOf(at)
	c.from = c.day
	c.whole = at <= float64(c.day)*day.Seconds()
	end := c.to.end()
	if end.IsZero() {
		return
	}
	c.from = dayOf(seconds(end))
	if at <= seconds(end) {
		c.whole = c.day >= c.from
		return
	}
	for d := c.from; d <= c.day; d++ {
		gaps[d] = fmt.Sprintf("the log from %s to %s is gone", clock(seconds(end)), clock(at))
	}
	c.day, c.whole = c.from, true
}

// describe returns events that describe the state at a time; nil = it is unknown.
func (l *Log) describe(at float64) []*ledger.Event {
	if l.state == nil || l.cut.day+1 < l.cut.from {
		return nil
	}
	known := map[string]named{}
	list := l.state.Describe(func(p *ledger.Pod) (string, int64) {
		n := l.cut.names[p.UID()]
		known[p.UID()] = n
		return n.pod, n.created
	})
	l.cut.names = known
	for _, e := range list {
		e.Time = at
	}
	return list
}

package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// A logged recording is in files. Only the present pods are kept in memory.
type logged struct {
	path          string
	log           *ledger.Log
	written       int64            // time of the last event, in ms since 1970
	pods          map[string]named // by UID
	arrived, left int              // since the first look
	looked        bool
}

// named holds the data of a pod that a ledger lacks.
type named struct {
	name    string
	created int64
}

// OpenRecorder begins a recording in the files of a log, or continues the one that they hold. Only one process at a
// time may have them open. fleet is open or fixed.
func OpenRecorder(path, appLabel, fleet string, rotation ledger.Rotation, now time.Time) (*Recorder, error) {
	if old, err := formerFormat(path); err != nil {
		return nil, err
	} else if old {
		return nil, fmt.Errorf("%s:1: a recording in the format of an earlier sigma: finish it with that version, or move it away", path)
	}
	log, err := ledger.OpenRotatingLog(path, rotation)
	if err != nil {
		return nil, err
	}
	r := newRecorder(appLabel, fleet, now)
	r.files = &logged{path: path, log: log, pods: map[string]named{}}
	return r, nil
}

// formerFormat reports whether a file begins like a recording of the format before decision logs.
func formerFormat(path string) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	begin := make([]byte, len(former))
	n, err := file.ReadAt(begin, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(begin[:n]) == former, err
}

const former = `{"at":`

// Resume reads a recording in one file and checks that this one continues it. began is the time of its first event;
// the zero time = there is none.
func (r *Recorder) Resume() (began time.Time, err error) {
	past, err := history.ReadAll(r.files.path)
	if err != nil {
		return time.Time{}, err
	}
	start, at := past.Start()
	if start.Version == 0 {
		return time.Time{}, nil
	}
	r.last = max(r.last, past.Last()) // a clock may have been set back
	return time.UnixMilli(at).UTC(), r.Continue(&start, past.NodeUIDs())
}

// Continue checks that this recording continues one with a start (nil = there is none), and expects its nodes: a
// cluster with none of them is another one. nodes has their UIDs by name; "" = any.
func (r *Recorder) Continue(start *ledger.Start, nodes map[string]string) error {
	r.expected = nodes
	switch {
	case start == nil:
		return nil
	case start.AppLabel != r.appLabel:
		return fmt.Errorf("%s: was begun with --app-label %q, not %q", r.files.path, start.AppLabel, r.appLabel)
	case start.Fleet != r.fleet:
		return fmt.Errorf("%s: was begun with --fleet %s, not %s", r.files.path, start.Fleet, r.fleet)
	case start.Currency != r.Prices.Unit():
		return fmt.Errorf("%s: was begun with --prices in %q, not in %q", r.files.path, start.Currency, r.Prices.Unit())
	}
	return nil
}

// Miss records that the cluster was not observed for a while. The files then begin again with a description, and
// a gap shows that events are missing.
func (r *Recorder) Miss() {
	if r.files == nil || r.ledger == nil {
		return
	}
	r.files.log.Skip(1)
	r.files.pods = map[string]named{}
	r.ledger = nil
}

// Close closes the files.
func (r *Recorder) Close() error {
	if r.files == nil {
		return nil
	}
	return r.files.log.Close()
}

// pulse is the longest time for which a cluster without changes writes no event.
const pulse = 5 * time.Minute

// write writes the events of a look at a time (in ms since 1970), and continues in another file when this one is full.
// Without an event now and then, a quiet day looks like one that was not watched.
func (f *logged) write(l *ledger.Ledger, events []*ledger.Event, now time.Time, at int64) error {
	if len(events) == 0 {
		if at-f.written < pulse.Milliseconds() {
			return nil
		}
		events = []*ledger.Event{{Kind: ledger.KindForecast, Time: float64(at) / 1e3}}
	}
	for _, e := range events {
		switch e.Kind {
		case ledger.KindPlace, ledger.KindArrive:
			if _, known := f.pods[e.UID]; !known && f.looked {
				f.arrived++
			}
			f.pods[e.UID] = named{e.Pod, e.Created}
		case ledger.KindRemove:
			delete(f.pods, e.UID)
			f.left++
		default: // of nodes, apps and rules
		}
	}
	f.looked, f.written = true, at
	if err := errors.Join(f.log.Write(events...), f.log.Sync()); err != nil {
		return err
	}
	if !f.log.Full() {
		return nil
	}
	known := map[string]named{}
	description := l.Describe(func(p *ledger.Pod) (string, int64) {
		known[p.UID()] = f.pods[p.UID()]
		return known[p.UID()].name, known[p.UID()].created
	})
	for _, e := range description {
		e.Time = float64(at) / 1e3
	}
	f.pods = known
	return errors.Join(f.log.Begin(now, description), f.log.Prune())
}

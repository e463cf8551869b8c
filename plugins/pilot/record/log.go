package record

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/internal/bounded"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const (
	day = 24 * time.Hour
	// silence is the time for which a scheduler may be away before events in it count as missing, and the
	// most that its clock may be set back.
	silence = 15 * time.Minute
	// ahead is how far its clock may be before ours.
	ahead = 5 * time.Minute
	// Back is how far back waits and fallbacks count.
	Back = time.Hour
	// Open is how far back nodes that were opened count: there are fewer of those.
	Open = day
	// most is how many decisions are kept.
	most = 200_000
)

// A Log follows the files of a decision log. It serves one goroutine.
type Log struct {
	path   string
	reader *ledger.Reader
	tail   *tail
	held   *ledger.Event // not taken yet; nil = none
	name   string        // of the file that is read, "" = none yet
	start  *ledger.Start // the newest

	now       float64           // of the poll; seconds since 1970, as last
	last      float64           // time of the newest event
	seq       uint64            // of the last event
	gaps      map[int64]string  // the missing part of days that are no segments yet, by day since 1970
	begins    map[string]begin  // of each file
	waiting   map[string]asking // by UID
	decisions []decision
	cut       cutter

	compared float64        // decisions from here on are compared with Best-Fit; seconds since 1970
	state    *ledger.Ledger // nil until the next start: an event did not fit its cluster
	why      string         // why
}

// A begin is the first time of a file.
type begin struct {
	info os.FileInfo
	at   float64
}

// An asking pod has no node yet.
type asking struct{ since float64 }

type decision struct {
	at, waited float64 // seconds
	digest     string
	fallback   bool
	// Whether it took an empty node and whether Best-Fit would have, where compared is true.
	opened, bestFit, compared bool
}

// Follow reads the log of that path and makes segments of its days, with each [Log.Poll]. The first one
// begins with the file in which the day before the end of the newest segment began; without segments with
// the oldest. Decisions from the time compared on are compared with Best-Fit.
func Follow(path string, to *Segments, compared time.Time) *Log {
	l := &Log{path: path, compared: seconds(compared), cut: newCutter(to)}
	l.forget()
	return l
}

func (l *Log) forget() {
	l.Close()
	l.reader, l.held, l.name, l.start = nil, nil, "", nil
	l.last, l.seq = math.NaN(), 0
	l.gaps, l.begins, l.waiting, l.decisions, l.state, l.why = map[int64]string{}, map[string]begin{}, map[string]asking{}, nil, nil, ""
	l.cut = newCutter(l.cut.to)
}

// Close closes its files.
func (l *Log) Close() {
	l.leave()
	l.cut.close()
}

// leave closes the file that is read.
func (l *Log) leave() {
	if l.tail != nil {
		_ = l.tail.file.Close() // it was read only
		l.tail = nil
	}
}

// Fault is why no segment can be written; nil = it can. The log is read on all the same, and after some
// polls it is tried again.
func (l *Log) Fault() error { return l.cut.fault }

// Start is the newest start event of the log; nil = there is none yet.
func (l *Log) Start() *ledger.Start { return l.start }

// Poll reads what was written since the last time, up to now. After an error it begins from the beginning.
func (l *Log) Poll(now time.Time) (err error) {
	l.now = seconds(now)
	if l.cut.fault != nil {
		if l.cut.polls++; l.cut.polls >= again {
			l.forget()
		}
	}
	defer func() {
		if err != nil {
			l.forget()
		}
	}()
	all, err := files(l.path)
	if err != nil {
		return err
	}
	if err := l.find(all); err != nil {
		return err
	}
	for {
		more, err := l.next()
		if err != nil {
			return err
		}
		if more {
			continue
		}
		switched, err := l.open(all)
		if err != nil || !switched {
			return err
		}
	}
}

// find reads the beginnings of the files and forgets removed ones.
func (l *Log) find(all []string) error {
	known := map[string]begin{}
	for _, name := range all {
		b, err := l.beginning(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, io.EOF) { // removed meanwhile, or still empty
			continue
		}
		if err != nil {
			return err
		}
		known[name] = b
	}
	l.begins = known
	return nil
}

func (l *Log) beginning(name string) (begin, error) {
	info, err := os.Stat(name)
	if err != nil {
		return begin{}, err
	}
	if b, ok := l.begins[name]; ok && os.SameFile(b.info, info) {
		return b, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return begin{}, err
	}
	defer f.Close() //nolint:errcheck // it was read only
	e, err := ledger.NewReader(name, &tail{file: f}).Next()
	if err != nil {
		return begin{}, err
	}
	return begin{info, e.Time}, nil
}

// open opens the next file: the one after the open one, which is found by identity since the newest file
// gets another name.
func (l *Log) open(all []string) (bool, error) {
	at := l.behind(all)
	if l.tail != nil {
		at = -1
		info, err := l.tail.file.Stat()
		if err != nil {
			return false, err
		}
		for i, name := range all {
			if other, err := os.Stat(name); err == nil && os.SameFile(info, other) {
				at = i
			}
		}
		cut, err := l.tail.cut()
		switch {
		case err != nil:
			return false, err
		case cut && at >= 0: // copied and cut: it begins again
			at--
		case at < 0:
			// Removed: if others were as well, events are missing, which the gap in seq shows.
			if at = slices.IndexFunc(all, func(name string) bool { return l.begins[name].at > l.last }) - 1; at < -1 {
				return false, nil
			}
		case at == len(all)-1:
			return false, nil
		}
	}
	if at+1 >= len(all) {
		return false, nil
	}
	f, err := os.Open(all[at+1])
	if errors.Is(err, os.ErrNotExist) {
		return false, nil // renamed meanwhile: the next poll finds it
	}
	if err != nil {
		return false, err
	}
	l.leave()
	l.tail, l.name = &tail{file: f}, all[at+1]
	if l.reader == nil {
		l.reader = ledger.NewReader(l.name, l.tail)
	} else {
		l.reader.Continue(l.name, l.tail)
	}
	return true, nil
}

// behind is the position before the file to begin with. The guard looks back as far as [Open].
func (l *Log) behind(all []string) int {
	end := l.cut.to.end()
	if end.IsZero() {
		return -1
	}
	at := -1
	for i, name := range all {
		if b, ok := l.begins[name]; ok && i > 0 && b.at <= seconds(end.Add(-Open)) {
			at = i - 1
		}
	}
	return at
}

// next takes an event. more is false at the present end of the file.
func (l *Log) next() (more bool, err error) {
	if l.reader == nil {
		return false, nil
	}
	e, err := l.reader.Next()
	if errors.Is(err, io.EOF) {
		l.release(nil)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.release(e)
	if !math.IsNaN(l.last) && e.Time > l.last+silence.Seconds() {
		l.held = e
		return true, nil
	}
	l.take(e, false)
	return true, nil
}

// release takes the held event, one long after its predecessor. If the next event (nil = there is none yet) is dated
// long before it, its clock was wrong.
func (l *Log) release(next *ledger.Event) {
	if e := l.held; e != nil {
		l.held = nil
		l.take(e, next != nil && next.Time < e.Time-silence.Seconds())
	}
}

func (l *Log) take(e *ledger.Event, wrong bool) {
	at := l.timeOf(e, wrong)
	if e.Kind == ledger.KindStart {
		l.start = e.Start
		l.begin(e, at)
	}
	if l.cut.fault == nil {
		l.cut.fault = l.turn(at)
	}
	l.last, l.seq = at, e.Seq
	switch e.Kind {
	case ledger.KindArrive:
		if _, ok := l.waiting[e.UID]; !ok {
			l.waiting[e.UID] = asking{at}
		}
	case ledger.KindDecide:
		d := decision{at: at, digest: e.PolicyDigest, fallback: strings.HasPrefix(e.Cause, ledger.CauseFallback)}
		if asked, ok := l.waiting[e.UID]; ok {
			d.waited = at - asked.since
		}
		if l.state != nil && at >= l.compared && e.Decision != nil && e.ByPolicy() {
			own, bestFit, err := l.state.OpensMachine(e)
			d.opened, d.bestFit, d.compared = own, bestFit, err == nil
		}
		l.decisions = append(l.decisions, d)
		delete(l.waiting, e.UID)
	case ledger.KindPlace, ledger.KindRemove:
		delete(l.waiting, e.UID)
	default: // of nodes, apps and rules; a pod whose binding failed arrives again
	}
	if e.Kind == ledger.KindStart {
		l.state = ledger.New()
	}
	if l.state != nil {
		if err := l.state.Apply(e); err != nil {
			l.state, l.why = nil, fmt.Sprintf("event %d of %s: %v", e.Seq, clock(at), err)
		}
	}
	if l.cut.fault == nil {
		l.cut.fault = l.cut.take(e, at)
	}
	if n := len(l.decisions); n > most || n > 0 && n%1024 == 0 {
		from := max(0, n-most)
		for from < n && l.decisions[from].at < at-Open.Seconds() {
			from++
		}
		l.decisions = slices.Clone(l.decisions[from:])
	}
}

// timeOf is the time of an event as far as it can be true: if its clock was wrong, that of the event before. A wrong
// clock makes a gap of the days that it spoils: one that runs ahead would end future days, whose own events would then
// have no valid time.
func (l *Log) timeOf(e *ledger.Event, wrong bool) float64 {
	at := e.Time
	if wrong || at < 0 || at > l.now+ahead.Seconds() {
		if at = l.last; math.IsNaN(at) {
			at = l.now
		}
		l.gaps[dayOf(at)] = fmt.Sprintf("an event after %s says %s", clock(at), clock(e.Time))
	}
	if math.IsNaN(l.last) || at >= l.last {
		return at
	}
	if l.last-at > silence.Seconds() {
		for d := dayOf(at); d <= dayOf(l.last); d++ {
			if l.gaps[d] != "" {
				continue
			}
			l.gaps[d] = fmt.Sprintf("the clock went back from %s to %s", clock(l.last), clock(at))
		}
	}
	return l.last
}

// begin records the gap before a start, if there is one.
func (l *Log) begin(e *ledger.Event, at float64) {
	if math.IsNaN(l.last) {
		return
	}
	process := e.Seq == 1
	if !process && e.Seq == l.seq+1 {
		return // a file that continues
	}
	clear(l.waiting) // those that still wait arrive again
	why := ""
	switch {
	case !process && e.Seq > l.seq+1:
		why = fmt.Sprintf("%d events were not written before %s", e.Seq-l.seq-1, clock(at))
	case at-l.last > silence.Seconds():
		why = fmt.Sprintf("nothing was recorded from %s to %s", clock(l.last), clock(at))
	default:
		return
	}
	for d := dayOf(l.last); d <= dayOf(at); d++ {
		l.gaps[d] = why
	}
}

func clock(seconds float64) string { return moment(seconds).Format(time.RFC3339) }

func moment(seconds float64) time.Time { return time.UnixMilli(bounded.Int(seconds * 1e3)).UTC() }

func dayOf(seconds float64) int64 { return int64(math.Floor(seconds / day.Seconds())) }

// Last is the time of the newest event; the zero time = there are no events.
func (l *Log) Last() time.Time {
	if math.IsNaN(l.last) {
		return time.Time{}
	}
	return moment(l.last)
}

// Nodes are the nodes at the newest event, if they are known.
func (l *Log) Nodes() (names []string) {
	if l.state == nil {
		return nil
	}
	for n := range l.state.Nodes() {
		names = append(names, n.Name())
	}
	return names
}

// A Day is one that a log covers from its beginning to its end.
type Day struct {
	Start time.Time
	Gap   string // the missing part of it; "" = nothing
}

// Days are the whole days of UTC, oldest first: those of the segments.
func (l *Log) Days() (list []Day) {
	for _, g := range l.cut.to.List() {
		list = append(list, Day{g.Start, g.Gap})
	}
	return list
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

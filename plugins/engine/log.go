package engine

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

const (
	// retryEvery is the least time between two attempts to begin the log again: each
	// writes a description of the cluster.
	retryEvery = 10 * time.Second
	// reportEvery is the least time between two reports of errors.
	reportEvery = time.Minute
	// mostQueued bounds the memory of the lines that wait while the log begins again, in bytes.
	mostQueued = 64 << 20
)

// A decisionLog holds events until they are written. Without a file it drops them.
//
// Where lines cannot follow those in the file, because a write failed or another program
// exchanged the file, the log begins again with a description of the cluster, as it does
// in the next file when one is full. The ledger does not change by that. The description
// is encoded and written in a goroutine, while decisions continue: their lines follow it.
type decisionLog struct {
	file     *ledger.Log // while a beginning is under way, only that uses it
	now      func() time.Time
	describe func() []*ledger.Event
	lines    []*ledger.Event

	beginning chan begun // nil if no beginning is under way
	queued    int        // bytes of lines since it began, estimated

	broken  bool      // lines were lost: the log has to begin again
	skipped int       // lines lost that have not used up their numbers yet
	retryAt time.Time // not before

	failures, lost metrics.CounterMetric
	reportedAt     time.Time // the last error; zero = never
	unreported     int       // errors since
}

// begun is the result of a beginning.
type begun struct{ begin, prune error }

func openLog(opt *Options) (*ledger.Log, error) {
	if opt.DecisionLog == "" {
		return nil, nil
	}
	return ledger.OpenRotatingLog(opt.DecisionLog, ledger.Rotation{Bytes: opt.DecisionLogBytes, Files: opt.DecisionLogFiles})
}

func (l *decisionLog) add(ev *ledger.Event) {
	if l.file == nil {
		return
	}
	ev.Time = seconds(l.now())
	l.lines = append(l.lines, ev)
	if l.beginning == nil {
		return
	}
	if l.queued += memory(ev); l.queued > mostQueued {
		if l.skipped == 0 {
			l.failed(errors.New("it takes so long to begin again that more came than is kept"))
		}
		l.drop()
	}
}

// memory returns an estimate of the size of an event, in bytes.
func memory(ev *ledger.Event) int {
	bytes := 1024 + 64*(len(ev.Expected)+len(ev.Rules))
	if d := ev.Decision; d != nil {
		bytes += 16 * (len(d.Infeasible) + len(d.Extra))
	}
	return bytes
}

func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// flush writes the waiting lines, unless a beginning is under way.
func (l *decisionLog) flush() {
	l.look()
	if l.file == nil || l.beginning != nil {
		return
	}
	if len(l.lines) > 0 && !l.broken {
		l.write()
	}
	if l.broken {
		l.drop()
	}
	due := !l.now().Before(l.retryAt)
	if due && (l.broken || l.file.Full()) {
		l.begin()
	}
}

// look checks whether a beginning has ended, and whether another program exchanged the
// file. Waiting lines still belong to a file that was moved, and cannot be appended to one that
// was cut.
func (l *decisionLog) look() {
	select {
	case b := <-l.beginning:
		l.end(b)
	default:
	}
	if l.file == nil || l.beginning != nil || l.broken {
		return
	}
	err := l.file.Check(l.now())
	if err == nil {
		return
	}
	if errors.Is(err, ledger.ErrMoved) {
		l.write()
	}
	klog.InfoS("The decision log begins again", "reason", err)
	l.drop()
	l.broken = true
	l.begin()
}

// write appends the waiting lines.
func (l *decisionLog) write() {
	if len(l.lines) == 0 {
		return
	}
	if err := l.file.Write(l.lines...); err != nil {
		l.failed(err)
		l.lost.Add(float64(len(l.lines)))
		l.broken, l.retryAt = true, l.now().Add(retryEvery)
	}
	l.forget()
}

// drop counts the waiting lines as lost.
func (l *decisionLog) drop() {
	l.skipped += len(l.lines)
	l.lost.Add(float64(len(l.lines)))
	l.forget()
}

func (l *decisionLog) forget() {
	clear(l.lines)
	l.lines = l.lines[:0]
}

// begin describes the cluster, and writes that in a goroutine. No line waits: lines from here on
// follow the description.
func (l *decisionLog) begin() {
	now, description, file, done := l.now(), l.describe(), l.file, make(chan begun, 1)
	file.Skip(l.skipped)
	l.beginning, l.queued, l.skipped = done, 0, 0
	go func() {
		for _, ev := range description {
			ev.Time = seconds(now)
		}
		var b begun
		if b.begin = file.Begin(now, description); b.begin == nil {
			b.prune = file.Prune()
		}
		done <- b
	}()
}

// end is called when a beginning has ended. If it failed, a log that was only full continues
// in the same file. If more lines arrived than are kept, the log begins once more.
func (l *decisionLog) end(b begun) {
	l.beginning = nil
	if b.begin != nil {
		l.failed(fmt.Errorf("it cannot begin again: %w", b.begin))
		l.broken, l.retryAt = l.broken || l.skipped > 0, l.now().Add(retryEvery)
		return
	}
	l.broken = l.skipped > 0
	if b.prune != nil {
		l.failed(b.prune)
	}
}

// failed counts an error, and reports one a minute.
func (l *decisionLog) failed(err error) {
	l.failures.Inc()
	now := l.now()
	if !l.reportedAt.IsZero() && now.Sub(l.reportedAt) < reportEvery {
		l.unreported++
		return
	}
	klog.ErrorS(err, "Cannot write the decision log; decisions go on", "unreportedErrors", l.unreported)
	l.reportedAt, l.unreported = now, 0
}

// close writes the waiting lines and closes the file. Later events are dropped.
func (l *decisionLog) close() error {
	if l.file == nil {
		return nil
	}
	l.await()
	l.flush()
	l.await()
	file := l.file
	l.file = nil
	return file.Close()
}

// await waits until no beginning is under way.
func (l *decisionLog) await() {
	if l.beginning != nil {
		l.end(<-l.beginning)
	}
}

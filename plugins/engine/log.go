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
	// describes the cluster.
	retryEvery = 10 * time.Second
	// reportEvery is the least time between two reports of errors.
	reportEvery = time.Minute
)

// A decisionLog holds events until they are written. Without a file it drops them.
//
// Where lines cannot follow those in the file, because a write failed or another program
// exchanged the file, the log begins again with a description of the cluster. So it does
// in the next file when one is full. The ledger does not change by that.
type decisionLog struct {
	file     *ledger.Log
	now      func() time.Time
	describe func() []*ledger.Event
	lines    []*ledger.Event

	broken  bool      // lines were lost: the log has to begin again
	retryAt time.Time // not before

	failures, lost metrics.CounterMetric
	reportedAt     time.Time // the last error; zero = never
	unreported     int       // errors since
}

func openLog(opt *Options) (*ledger.Log, error) {
	if opt.DecisionLog == "" {
		return nil, nil
	}
	return ledger.OpenRotatingLog(opt.DecisionLog, ledger.Rotation{Bytes: opt.DecisionLogBytes, Files: opt.DecisionLogFiles})
}

func (l *decisionLog) add(ev *ledger.Event) {
	if l.file != nil {
		ev.Time = seconds(l.now())
		l.lines = append(l.lines, ev)
	}
}

func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// flush writes what is waiting.
func (l *decisionLog) flush() {
	if l.file == nil {
		return
	}
	l.look()
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

// look finds out whether another program exchanged the file. What waits still belongs to
// a file that was moved, and cannot follow where one was cut.
func (l *decisionLog) look() {
	if l.file == nil || l.broken {
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

// write appends what is waiting.
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

// drop counts what is waiting as lost.
func (l *decisionLog) drop() {
	l.file.Skip(len(l.lines))
	l.lost.Add(float64(len(l.lines)))
	l.forget()
}

func (l *decisionLog) forget() {
	clear(l.lines)
	l.lines = l.lines[:0]
}

// begin writes a description of the cluster, behind which lines may follow. Where that
// fails, a log that is only full goes on in the same file.
func (l *decisionLog) begin() {
	now, description := l.now(), l.describe()
	for _, ev := range description {
		ev.Time = seconds(now)
	}
	if err := l.file.Begin(now, description); err != nil {
		l.failed(fmt.Errorf("it cannot begin again: %w", err))
		l.retryAt = now.Add(retryEvery)
		return
	}
	l.broken = false
	if err := l.file.Prune(); err != nil {
		l.failed(err)
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

// close writes what is waiting and closes the file. Later events are dropped.
func (l *decisionLog) close() error {
	if l.file == nil {
		return nil
	}
	l.flush()
	file := l.file
	l.file = nil
	return file.Close()
}

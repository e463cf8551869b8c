package control

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/internal/evidence"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/pilot"
	"github.com/sigma-scheduler/sigma/plugins/pilot/page"
	"github.com/sigma-scheduler/sigma/plugins/pilot/record"
)

// largest is the most that a page may have in a ConfigMap, which holds 1 MiB.
const largest = 900_000

// counted reports whether the page has a day.
func (w *worker) counted(start time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.history.Has(start)
}

// count adds days to the page: the cost of the recorded placement, and that of the baseline from the first
// day of the record on.
func (w *worker) count(t *trace.Trace, days []record.Day, bounds map[time.Time]float64) error {
	if len(bounds) == 0 {
		return nil
	}
	stood, err := evidence.Recorded(t)
	if err != nil {
		return nil // a record without pods has no costs
	}
	without, err := builtIn(w.baseline)
	if err != nil {
		return err
	}
	trial, err := evidence.NewTrial(t, without, 0, 0, day.Seconds(), len(days))
	if err != nil {
		return nil // the last day is as good as empty: the next one counts it
	}
	current, err := trial.Run(stood)
	if err != nil {
		return err
	}
	baseline, err := trial.Run(without)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Currency, _ = t.Source["currency"].(string)
	for i, d := range days {
		if bound, ok := bounds[d.Start]; ok {
			w.history.AddDay(page.Day{Start: d.Start, Current: current.Cost[i] / day.Hours(), Without: baseline.Cost[i] / day.Hours(), Bound: bound})
		}
	}
	return nil
}

// note adds the result of the active policy and the loop's decisions to the page, and writes the page if it
// changed.
func (w *worker) note(name, policy string, out *pilot.Outcome, now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, told := &out.State, false
	if l := w.live; l.Digest == s.InForce {
		live := page.Live{Digest: l.Digest, Since: l.Since, Realised: l.Realised, Days: l.Days}
		if s.Candidate == "" || s.Phase == pilot.GoingLive {
			live.Promised = s.Promised
		}
		w.history.Note(live)
	}
	for _, a := range out.Actions {
		if a.Kind == pilot.Tell {
			w.history.Tell(page.Mark{At: now, Text: a.Text})
			told = true
		}
	}
	var text bytes.Buffer
	if err := w.history.Report(name, policy).HTML(&text); err != nil {
		return err
	}
	if bytes.Equal(text.Bytes(), w.shown) && !told {
		return nil
	}
	w.shown = text.Bytes()
	return errors.Join(w.shelf.save(historyFile, w.history), durable.WriteBytes(filepath.Join(w.shelf.dir, pageFile), w.shown))
}

// show puts the page into a ConfigMap in this program's namespace, which `sigma pilot report` reads. The
// PolicyPilot owns it.
func (r *reconciler) show(ctx context.Context, o *v1alpha1.PolicyPilot, l *loop) error {
	l.worker.mu.Lock()
	text := l.worker.shown
	l.worker.mu.Unlock()
	if r.Namespace == "" || len(text) == 0 || bytes.Equal(text, l.sent) {
		return nil
	}
	if len(text) > largest {
		return errors.New("the page is too large for a ConfigMap: it is on the volume only")
	}
	m := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: r.Namespace, Name: v1alpha1.PilotReport(o.Name)}
	err := r.live.Get(ctx, name, m)
	there := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	m.Namespace, m.Name = name.Namespace, name.Name
	m.Data = map[string]string{v1alpha1.PilotReportKey: string(text)}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PolicyPilot", Name: o.Name, UID: o.UID}}
	if there {
		err = r.client.Update(ctx, m, client.FieldOwner(owner))
	} else {
		err = r.client.Create(ctx, m, client.FieldOwner(owner))
	}
	if err == nil {
		l.sent = text
	}
	return err
}

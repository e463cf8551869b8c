package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/internal/durable"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// oldHead begins the recordings of versions that had a format of their own.
const oldHead = `{"at":`

// translateFile replaces a recording of the old format by its translation and keeps it
// as NAME.v1. A kill at any moment leaves a whole file of one of the formats.
func translateFile(path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	head := make([]byte, len(oldHead))
	n, _ := file.ReadAt(head, 0)
	if n <= len(`{"`) || string(head[:n]) != oldHead[:n] { // a kill may have cut off the first line
		return nil
	}
	if err := durable.TryLock(file); err != nil {
		return fmt.Errorf("%s: another writer has it open: %w", path, err)
	}
	text, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(text, head[:n]) { // another process was faster
		return err
	}
	translated, err := translate(path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if err := replace(path+".v1", text); err != nil {
		return err
	}
	return replace(path, translated)
}

func replace(path string, text []byte) error {
	err := durable.WriteFile(path, func(w io.Writer) error { _, err := w.Write(text); return err })
	return errors.Join(err, os.Chmod(path, 0o600))
}

// An oldLine is the result of a look at the cluster.
type oldLine struct {
	At    float64 `json:"at"` // seconds since the beginning
	Begin *struct {
		Version  int       `json:"version"`
		Time     time.Time `json:"time"`
		AppLabel string    `json:"appLabel"`
	} `json:"begin"`
	Node *struct { // new or changed
		metav1.ObjectMeta
		Taints  []v1.Taint     `json:"taints"`
		Machine ledger.Machine `json:"machine"` // without refusals and labels
	} `json:"node"`
	Gone     string `json:"gone"` // a node
	Selector *struct {
		ID string `json:"id"`
		v1.PodSpec
		Affinity *v1.NodeSelector `json:"affinity"`
	} `json:"selector"`
	App  string `json:"app"`
	Spec *struct {
		Group         string           `json:"group"`
		Selector      string           `json:"selector"`
		Demand        map[string]int64 `json:"demand"`
		MaxPerMachine int32            `json:"max_per_machine"`
		SpreadMin     int32            `json:"spread_min"`
	} `json:"spec"`
	Rules    *[]ledger.Rule     `json:"rules"` // in place of all earlier ones
	Expected map[string]float64 `json:"expected"`
	Pod      *oldPod            `json:"pod"`  // new or changed
	Left     string             `json:"left"` // UID of a pod
}

type oldPod struct {
	UID     string `json:"uid"`
	Name    string `json:"name"`
	App     string `json:"app"`
	Node    string `json:"node"` // "": it waits
	Created int64  `json:"created"`
}

// A translation turns the lines of an old recording into events.
type translation struct {
	began     float64 // ms since 1970
	at        float64 // seconds since then
	selectors map[string]*podspec.Selector
	objects   map[*ledger.Machine]*v1.Node
	nodes     map[string]bool // false: removed. "" is the node of waiting pods
	here      map[string]*oldPod
	known     map[string]bool // apps
	apps      []*ledger.Event
	events    []*ledger.Event // the others
}

// translate returns an old recording as a decision log, without a line that a kill cut off.
func translate(path string, in io.Reader) ([]byte, error) {
	t := &translation{
		selectors: map[string]*podspec.Selector{"": {}}, objects: map[*ledger.Machine]*v1.Node{},
		nodes: map[string]bool{"": true}, here: map[string]*oldPod{}, known: map[string]bool{},
	}
	for r := durable.NewReader(path, in, durable.ParseJSON[oldLine]); ; {
		l, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t.finish(path)
		}
		if err != nil {
			return nil, err
		}
		if err := t.book(&l); err != nil {
			return nil, &durable.LineError{File: path, Line: r.Line(), Err: err}
		}
	}
}

// finish puts all apps first. Each node then lists the selectors of theirs that it refuses,
// even a node that was removed before they appeared.
func (t *translation) finish(path string) ([]byte, error) {
	for m, node := range t.objects {
		for _, id := range slices.Sorted(maps.Keys(t.selectors)) {
			if !t.selectors[id].Admits(node) {
				m.Refuses = append(m.Refuses, id)
			}
		}
	}
	events, past, first := slices.Insert(t.events, min(1, len(t.events)), t.apps...), history.New(), 0
	for ; first < len(events) && events[first].Time <= t.began/1e3; first++ {
		events[first].Time = t.began / 1e3
	}
	inOrder(events[:first]) // running pods precede waiting ones
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for i, e := range events {
		e.Seq = uint64(i + 1)
		if err := errors.Join(past.Add(e), enc.Encode(e)); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out.Bytes(), nil
}

func (t *translation) book(l *oldLine) error {
	t.at = max(t.at, l.At)
	switch {
	case (l.Begin != nil) != (t.events == nil), l.Begin != nil && l.Begin.Version != 1:
		return errors.New("not a recording of version 1")
	case l.Begin != nil:
		t.began = float64(l.Begin.Time.UnixMilli())
		t.emit(ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{
			Version: ledger.Version, Fleet: "open", Units: podspec.Units, AppLabel: l.Begin.AppLabel,
		}})
	case l.Node != nil:
		name, m := l.Node.Name, &l.Node.Machine
		t.objects[m] = &v1.Node{ObjectMeta: l.Node.ObjectMeta, Spec: v1.NodeSpec{Taints: l.Node.Taints}}
		m.Labels = maps.Clone(l.Node.Labels)
		maps.DeleteFunc(m.Labels, func(key, _ string) bool { return !slices.Contains(ledger.NamingLabels, key) })
		t.emit(ledger.Event{Kind: ledger.KindNode, Node: name, UID: string(l.Node.UID), Machine: m})
		if !t.nodes[name] {
			t.nodes[name] = true
			t.each(name, t.come)
		}
	case l.Gone != "" && t.nodes[l.Gone]:
		t.each(l.Gone, t.leave)
		t.emit(ledger.Event{Kind: ledger.KindForget, Node: l.Gone})
		t.nodes[l.Gone] = false
	case l.Selector != nil:
		pod := &v1.Pod{Spec: l.Selector.PodSpec}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: l.Selector.Affinity}}
		t.selectors[l.Selector.ID] = podspec.NewSelector(pod)
	case l.Spec != nil && t.selectors[l.Spec.Selector] != nil:
		spec := ledger.App{
			Group: l.Spec.Group, Selector: l.Spec.Selector, Demand: l.Spec.Demand,
			MaxPerMachine: l.Spec.MaxPerMachine, SpreadMin: l.Spec.SpreadMin,
		}
		t.known[l.App] = true
		t.apps = append(t.apps, &ledger.Event{Kind: ledger.KindApp, App: l.App, Spec: &spec})
	case l.Rules != nil:
		t.emit(ledger.Event{Kind: ledger.KindRule, Rules: *l.Rules, Reset: true})
	case l.Expected != nil:
		t.emit(ledger.Event{Kind: ledger.KindForecast, Expected: l.Expected})
	case l.Pod != nil:
		p := l.Pod
		if _, ok := t.nodes[p.Node]; !ok || !t.known[p.App] || p.UID == "" {
			return fmt.Errorf("pod: node %q or app %q is unknown, or the uid is missing", p.Node, p.App)
		}
		if before := t.here[p.UID]; before != nil && (p.Node == "" || !t.nodes[p.Node]) {
			t.leave(before)
		}
		t.here[p.UID] = p
		t.come(p)
	case t.here[l.Left] != nil:
		t.leave(t.here[l.Left])
		delete(t.here, l.Left)
	default:
		return fmt.Errorf("%s%s%s is unknown, or its selector", l.Gone, l.App, l.Left)
	}
	return nil
}

// each calls do for the pods on a node. They leave with the node and arrive again with
// it, if they still exist then.
func (t *translation) each(node string, do func(*oldPod)) {
	for _, uid := range slices.Sorted(maps.Keys(t.here)) {
		if p := t.here[uid]; p.Node == node {
			do(p)
		}
	}
}

func (t *translation) come(p *oldPod) {
	e := ledger.Event{Kind: ledger.KindPlace, Pod: p.Name, UID: p.UID, App: p.App, Node: p.Node, Created: max(p.Created, 0)}
	if p.Node == "" {
		e.Kind = ledger.KindArrive
	}
	if t.nodes[p.Node] {
		t.emit(e)
	}
}

func (t *translation) leave(p *oldPod) {
	if t.nodes[p.Node] {
		t.emit(ledger.Event{Kind: ledger.KindRemove, Pod: p.Name, UID: p.UID})
	}
}

func (t *translation) emit(e ledger.Event) {
	e.Time = (t.began + math.Round(t.at*1e3)) / 1e3
	t.events = append(t.events, &e)
}

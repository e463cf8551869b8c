//go:build e2e

package e2e_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// A moment is how far a chain is when a fault comes.
type moment int

// The moments: a request is under way, or a pod has not ended.
const (
	evictingFirst moment = iota + 1
	bindingFirst
	evictingSecond
	bindingSecond
	bindingLast
	endingFirst
	endingSecond
	// Of plans only.
	cordoning
	recordingFirst
	recordingSecond
	marking
	uncordoning
)

func (m moment) String() string {
	return []string{"", "evicting the first", "binding the first", "evicting the second", "binding the second", "binding the pod", "the first ends", "the second ends",
		"cordoning", "recording the first", "recording the second", "marking the node as empty", "uncordoning"}[m]
}

// A request of a scheduler: the n-th of a kind.
type request struct {
	path *regexp.Regexp // with the namespace, and of what
	n    int
}

var (
	ofPod   = `^/api/v1/namespaces/([^/]+)/pods/([^/]+)/`
	evicts  = regexp.MustCompile(ofPod + `eviction$`)
	binds   = regexp.MustCompile(ofPod + `binding$`)
	records = regexp.MustCompile(`^/apis/apps/v1/namespaces/([^/]+)/deployments/([^/]+)/status$`)
	patches = regexp.MustCompile(`^/api/v1/nodes/(.+)-([a-d])$`)
)

// requests are under way at a moment.
var requests = map[moment]request{
	evictingFirst: {evicts, 1}, evictingSecond: {evicts, 2}, endingSecond: {evicts, 2},
	bindingFirst: {binds, 1}, bindingSecond: {binds, 2}, bindingLast: {binds, 3},
	recordingFirst: {records, 1}, recordingSecond: {records, 2}, cordoning: {patches, 1}, marking: {patches, 2},
}

// A moveGate says which request of a site a proxy holds.
type moveGate struct {
	mu  sync.Mutex
	ns  string
	at  request // none where n is 0
	n   int     // of them so far
	app string  // of the last one's pod or deployment
}

func (g *moveGate) match(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.Method == http.MethodGet || g.at.n == 0 {
		return false
	}
	m := g.at.path.FindStringSubmatch(r.URL.Path)
	if m == nil || m[1] != g.ns {
		return false
	}
	g.n++
	g.app, _, _ = strings.Cut(m[2], "-")
	return g.n == g.at.n
}

func (g *moveGate) hold(ns string, at request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ns, g.n, g.at = ns, 0, at
}

// held is the workload whose request is held.
func (g *moveGate) held() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.app
}

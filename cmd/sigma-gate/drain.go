package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang/glog"
)

// tokenVariable is the environment variable with the token of the pod's own hook.
const tokenVariable = "SIGMA_DRAIN_TOKEN"

// leastToken is the number of characters of the shortest token that nobody guesses.
const leastToken = 16

// Calls of /drain without the token that wait at a time, in all and by address. The kubelet has one for a
// container that ends, or two after a restart of its own, from an address of the node. So a pod that
// calls from its own address leaves room for it, and all of them leave room for probes and metrics.
const (
	mostWaits      = 8
	mostWaitsOfOne = 2
)

// ending is the end of the server in the pod, which its hook announces by /drain. A call with the
// token begins it; any other call waits and changes nothing.
type ending struct {
	linger, drain time.Duration
	token         string // empty: no call has it
	now           func() (inside, waiting int)
	log           func(format string, args ...any)

	until atomic.Int64 // Unix nanoseconds; before it the pod is taken to end

	mu    sync.Mutex
	ended bool           // the end is logged
	waits map[string]int // calls without the token that wait, by address
}

// newEnding returns one, or the error of the token.
func newEnding(linger, drain time.Duration, token string, now func() (inside, waiting int)) (*ending, error) {
	unsent := func(r rune) bool { return r <= ' ' || r > '~' }
	if token != "" && (len(token) < leastToken || strings.ContainsFunc(token, unsent)) {
		return nil, fmt.Errorf("%s: %d bytes, want %d or more, of ASCII without spaces", tokenVariable, len(token), leastToken)
	}
	return &ending{linger: linger, drain: drain, token: token, now: now, log: glog.Infof, waits: map[string]int{}}, nil
}

// ends reports whether the pod is about to end: callers then make another connection for their next request,
// and reach another pod.
func (e *ending) ends() bool { return time.Now().UnixNano() < e.until.Load() }

// lingers returns how long requests are taken after SIGTERM: 0 if /drain has waited.
func (e *ending) lingers() time.Duration {
	if e.ends() {
		return 0
	}
	return e.linger
}

// most is how long a call of /drain waits.
func (e *ending) most() time.Duration { return e.linger + e.drain }

// ServeHTTP answers when no request has been inside since linger is over, or drain is.
func (e *ending) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e.known(r) {
		e.begin()
		if took, over := e.wait(r.Context()); over {
			e.end(took)
		}
		return
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	if !e.enter(host) {
		http.Error(w, "too many calls without a token wait", http.StatusServiceUnavailable)
		return
	}
	defer e.leave(host)
	e.wait(r.Context())
}

// known reports whether a call has the token. Its duration does not depend on the token.
func (e *ending) known(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	given, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(e.token))
	return subtle.ConstantTimeCompare(given[:], want[:]) == 1 && ok && e.token != ""
}

// begin begins the end or, where it has begun, prolongs it.
func (e *ending) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ends() {
		e.ended = false
		e.log("the server is about to end")
	}
	e.until.Store(time.Now().Add(2 * e.most()).UnixNano())
}

// end logs the number of requests inside at the end of the first call that has waited.
func (e *ending) end(took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		inside, waiting := e.now()
		e.log("%d requests inside and %d waiting after %v", inside, waiting, took.Round(time.Millisecond))
	}
	e.ended = true
}

// wait waits until no request is inside, once no Service sends any more. It is not over where the context
// ends before.
func (e *ending) wait(ctx context.Context) (took time.Duration, over bool) {
	begun := time.Now()
	ticks := time.NewTicker(looked)
	defer ticks.Stop()
	for {
		inside, waiting := e.now()
		took = time.Since(begun)
		if took >= e.linger && inside+waiting == 0 || took >= e.most() {
			return took, true
		}
		select {
		case <-ctx.Done():
			return took, false
		case <-ticks.C:
		}
	}
}

// enter reports whether one more call without the token may wait.
func (e *ending) enter(host string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := 0
	for _, n := range e.waits {
		all += n
	}
	if all >= mostWaits || e.waits[host] >= mostWaitsOfOne {
		return false
	}
	e.waits[host]++
	return true
}

func (e *ending) leave(host string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waits[host]--; e.waits[host] == 0 {
		delete(e.waits, host)
	}
}

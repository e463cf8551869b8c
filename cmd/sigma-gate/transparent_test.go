package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var transparentFlag = flag.Int("transparent", 2000, "generated requests of TestTransparent")

// compare returns how a conversation through the gate differs from the direct one.
func compare(c *conversation, direct, through *recorder, gate string, same normaliser) string {
	answered := func(address string) string {
		got, err := converse(address, c.steps, 2*time.Second)
		if err != nil || !bytes.Equal(got, c.want) {
			return fmt.Sprintf("the caller receives (%v)\n%.600q\nand not\n%.600q", err, got, c.want)
		}
		return ""
	}
	if text := answered(direct.address()); text != "" {
		return "without the gate " + text
	}
	differs := answered(gate)
	for _, id := range c.ids {
		want, _ := direct.take(id)
		if want == nil {
			return "the test's server did not receive " + id
		}
		got, n := through.take(id)
		switch {
		case got == nil || n != 1:
			return fmt.Sprintf("the server receives %d times\n%.600q\n%s", n, want.head, differs)
		case same(want.head, got.head) != "":
			return fmt.Sprintf("%s: the server receives\n%.900q\nand not\n%.900q", same(want.head, got.head), got.head, want.head)
		case !c.cut && (!want.whole || !got.whole || !bytes.Equal(want.body, got.body)):
			return fmt.Sprintf("the body of the server is (whole: %t)\n%.300q\nand not\n%.300q", got.whole, got.body, want.body)
		case !bytes.Equal(want.tunnel, got.tunnel):
			return fmt.Sprintf("the server receives after the upgrade\n%.300q\nand not\n%.300q", got.tunnel, want.tunnel)
		}
	}
	if differs == "" {
		return ""
	}
	return fmt.Sprintf("%s\nfor\n%.600q", differs, c.steps[0].segments)
}

// TestTransparent: the gate changes no byte of requests and answers but the caller's address,
// which it appends to X-Forwarded-For, and with --forwarded=keep not even that.
func TestTransparent(t *testing.T) {
	for _, s := range []struct {
		forwarded string
		requests  int
		same      normaliser
	}{
		{"append", *transparentFlag * 3 / 4, callerAppended},
		{"keep", *transparentFlag / 4, unchanged},
	} {
		t.Run(s.forwarded, func(t *testing.T) {
			answers := new(sync.Map)
			of := func(head []byte) *answer {
				a, ok := answers.Load(caseOf(head))
				if !ok {
					return &answer{final: []byte("HTTP/1.1 500 no such case\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), closes: true}
				}
				return a.(*answer)
			}
			direct, through := newRecorder(t, of), newRecorder(t, of)
			gate := startGate(t, through.address(), "--forwarded", s.forwarded, "--limit", "100")
			const workers = 8
			var mu sync.Mutex
			requests, different := map[string]int{}, 0
			var group sync.WaitGroup
			for w := range workers {
				group.Go(func() {
					m := &maker{Rand: rand.New(rand.NewPCG(1, uint64(w))), first: w * 1_000_000, answers: answers}
					for m.next < s.requests/workers {
						c := m.conversation()
						differs := compare(c, direct, through, gate.listen, s.same)
						for _, id := range c.ids {
							answers.Delete(id)
						}
						mu.Lock()
						requests[c.kind] += len(c.ids)
						if differs != "" {
							different++
							assert.Fail(t, c.kind, "worker %d: %s", w, differs)
						}
						enough := different >= 20
						mu.Unlock()
						if enough {
							return
						}
					}
				})
			}
			group.Wait()
			for _, kind := range slices.Sorted(maps.Keys(requests)) {
				t.Logf("| HTTP/1, `--forwarded=%s` | %s | %d |", s.forwarded, kind, requests[kind])
			}
			t.Logf("%d conversations differ", different)
		})
	}
}

// TestRecorded: requests of real clients, as they were recorded, pass as they are.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/requests/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	a := &answer{final: []byte("HTTP/1.1 204 none\r\nConnection: close\r\n\r\n"), closes: true}
	of := func([]byte) *answer { return a }
	direct, through := newRecorder(t, of), newRecorder(t, of)
	gate := startGate(t, through.address())
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		c := &conversation{want: a.final, ids: []string{""}, steps: []step{{segments: [][]byte{raw}, expect: len(a.final)}}}
		assert.Empty(t, compare(c, direct, through, gate.listen, callerAppended), file)
		direct.reset()
		through.reset()
	}
}

// FuzzTransparent: the gate refuses a request or passes the same bytes on.
func FuzzTransparent(f *testing.F) {
	for _, name := range slices.Sorted(maps.Keys(malformed)) {
		if raw := malformed[name]; len(raw) < 10_000 {
			f.Add([]byte(raw))
		}
	}
	m := &maker{Rand: rand.New(rand.NewPCG(2, 0)), answers: new(sync.Map)}
	for range 40 {
		if c := m.plain(); len(c.steps[0].segments) == 1 && len(c.steps[0].segments[0]) < 10_000 {
			f.Add(c.steps[0].segments[0])
		}
	}
	of := func(head []byte) *answer {
		method, rest, _ := bytes.Cut(head, []byte(" "))
		line, _, _ := bytes.Cut(rest, []byte("\r\n"))
		switch {
		case string(method) == "HEAD":
			return &answer{final: []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"), closes: true}
		case bytes.HasSuffix(line, []byte("HTTP/1.0")) || string(method) == "CONNECT" || bytes.Contains(bytes.ToLower(head), []byte("close")):
			return &answer{final: []byte("HTTP/1.1 405 no\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"), closes: true}
		}
		return &answer{final: []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")}
	}
	direct, through := newRecorder(f, of), newRecorder(f, of)
	gate := startGate(f, through.address(), "--limit", "100")
	whole := func(r *recorder) (all []*received) {
		for _, one := range r.reset() {
			if one.ended() && one.whole {
				all = append(all, one)
			}
		}
		return all
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if bytes.HasPrefix(raw, []byte("PRI * HTTP/2.0")) || len(raw) > 1<<16 {
			t.Skip("not HTTP/1")
		}
		steps := []step{{segments: [][]byte{raw}}}
		_, _ = converse(direct.address(), steps, 5*time.Second)
		answered, err := converse(gate.listen, steps, 5*time.Second)
		if err != nil {
			require.NotContains(t, err.Error(), "timeout", "the gate hangs")
		}
		want, got := whole(direct), whole(through)
		require.LessOrEqual(t, len(got), len(want), "the server receives more requests")
		for i := range got {
			require.Empty(t, callerAppended(want[i].head, got[i].head), "%q", got[i].head)
			require.Equal(t, want[i].body, got[i].body)
		}
		if len(got) < len(want) {
			require.Regexp(t, `HTTP/1\.[01] [45]\d\d [^\n]*\r\n`, string(answered), "%d of %d requests were passed on", len(got), len(want))
		}
	})
}

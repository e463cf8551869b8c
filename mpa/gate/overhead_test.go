//go:build unix

package gate

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
)

var overhead = flag.Int("overhead", 0, "measure the gate's cpu with so many requests a round")

const (
	driverVar      = "SIGMA_GATE_DRIVER"
	overheadRounds = 12
	// What the gate and the middleware may take of the cpu of a bare reverse proxy.
	mostGate, mostMiddleware = 1.15, .12
)

// TestOverheadDriver is no test: it is the server and its clients in a process of their own.
// It says its address, and then sends as many requests to an address as it is told to.
func TestOverheadDriver(t *testing.T) {
	if os.Getenv(driverVar) == "" {
		t.Skip("a process of TestOverhead")
	}
	answer := strings.Repeat("x", 512)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	defer server.Close()
	fmt.Println("at", server.URL)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var to string
		var requests int
		_, err := fmt.Sscan(lines.Text(), &to, &requests)
		require.NoError(t, err)
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for range requests / 8 {
					response, err := client.Get(to)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if response.StatusCode != http.StatusOK {
						t.Errorf("%s", response.Status)
					}
				}
			})
		}
		clients.Wait()
		client.CloseIdleConnections()
		fmt.Println("done")
	}
}

// The cpu of the gate, and what the middleware adds, beside a bare reverse proxy of the
// standard library in the same run.
func TestOverhead(t *testing.T) {
	if *overhead == 0 {
		t.Skip("make gate-bench measures it")
	}
	driver := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestOverheadDriver$")
	driver.Env = append(os.Environ(), driverVar+"=1")
	commands, err := driver.StdinPipe()
	require.NoError(t, err)
	output, err := driver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, driver.Start())
	lines := bufio.NewScanner(output)
	expect := func(word string) string {
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), word); ok {
				return strings.TrimSpace(rest)
			}
		}
		require.Fail(t, "the driver has ended", "no %q", word)
		return ""
	}
	inner := expect("at")
	target, err := url.Parse(inner)
	require.NoError(t, err)
	g := open(t, func(o *Options) { o.Limit = 8 })
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 8, DisableCompression: true},
	})
	defer bare.Close()
	_, gated := proxied(t, g, func(o *ProxyOptions) { o.Target = inner })
	through := func(to string) float64 {
		before := cputime.Process()
		_, err := fmt.Fprintln(commands, to, *overhead)
		require.NoError(t, err)
		expect("done")
		return (cputime.Process() - before) * 1e6 / float64(*overhead/8*8)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	calls := 20 * *overhead
	inProcess := func(h http.Handler) float64 {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		before := cputime.Process()
		for range calls {
			h.ServeHTTP(nothing{}, request)
		}
		return (cputime.Process() - before) * 1e6 / float64(calls)
	}
	through(bare.URL)
	through(gated)
	var bares, gates, middle, ratios []float64
	for range overheadRounds {
		b, x := through(bare.URL), through(gated)
		bares, gates, ratios = append(bares, b), append(gates, x), append(ratios, x/b)
		middle = append(middle, inProcess(g.Handler(handler))-inProcess(handler))
	}
	require.NoError(t, commands.Close())
	require.NoError(t, driver.Wait())
	ratio, share := median(ratios), median(middle)/median(bares)
	fmt.Printf("| | µs of cpu a request | ÷ a bare reverse proxy | asked for |\n|---|---:|---:|---:|\n")
	fmt.Printf("| `httputil.ReverseProxy` | %.1f | 1 | |\n", median(bares))
	fmt.Printf("| `sigma-gate`'s proxy behind its gate | %.1f | %.3f (%.3f to %.3f) | %.2f |\n", median(gates), ratio, slices.Min(ratios), slices.Max(ratios), mostGate)
	fmt.Printf("| the middleware adds | %.2f | %.3f | %.2f |\n", median(middle), share, mostMiddleware)
	require.LessOrEqual(t, ratio, mostGate)
	require.LessOrEqual(t, share, mostMiddleware)
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// nothing takes an answer.
type nothing struct{}

func (nothing) Header() http.Header         { return http.Header{} }
func (nothing) Write(b []byte) (int, error) { return len(b), nil }
func (nothing) WriteHeader(int)             {}

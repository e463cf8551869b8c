//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sigma-scheduler/sigma/lab/e2e"
)

// An extenderProcess is an extender under test.
type extenderProcess struct {
	*e2e.Process
	port    int
	metrics string // address of its health and metrics
}

// newExtender starts an extender and waits until it is ready.
func newExtender(t *testing.T, kubeconfig string, flags ...string) *extenderProcess {
	t.Helper()
	return newExtenderAt(t, e2e.FreePort(t), kubeconfig, flags...)
}

func newExtenderAt(t *testing.T, port int, kubeconfig string, flags ...string) *extenderProcess {
	t.Helper()
	metrics := e2e.FreePort(t)
	x := &extenderProcess{port: port, metrics: fmt.Sprintf("http://127.0.0.1:%d", metrics)}
	x.Process = e2e.StartProcess(t, fmt.Sprintf("extender-%d", x.port), e2e.Program(t, "sigma-extender"), append([]string{
		"--kubeconfig=" + kubeconfig,
		fmt.Sprintf("--bind-address=127.0.0.1:%d", x.port), fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", metrics),
		"--metrics-plain-http", // read also while the API server cannot say who may
	}, flags...)...)
	x.waitReady(t)
	return x
}

func (x *extenderProcess) waitReady(t *testing.T) {
	t.Helper()
	e2e.Wait(t, x.Name, func() (string, bool) {
		response, err := http.Get(x.metrics + "/readyz")
		if err != nil {
			return err.Error(), false
		}
		return response.Status, response.Body.Close() == nil && response.StatusCode == http.StatusOK
	})
}

package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/sigma-scheduler/sigma/internal/serve/servetest"
)

func review(t testing.TB, pod string) string {
	t.Helper()
	text, err := json.Marshal(admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(pod)},
	}})
	require.NoError(t, err)
	return strings.Replace(string(text), "{", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",`, 1)
}

// Callers that are silent, or send a byte now and then, lose their connection; the API
// server is answered meanwhile.
func TestSlowCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reader(t, object(t, "", ""), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"))
		hook := &webhook.Admission{Handler: &handler{objects: r, revisions: r, limit: limit}}
		ctx, cancel := context.WithCancel(t.Context())
		l, ended := servetest.Listen(), make(chan error)
		go func() { ended <- server("", hook, nil).Serve(ctx, l) }()
		var all sync.WaitGroup
		call := func(n int, c servetest.Caller) {
			for range n {
				all.Go(func() { require.LessOrEqual(t, c.Cut(t, l), 2*patience) })
			}
		}
		half := "POST " + Path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
		call(300, servetest.Caller{})
		call(100, servetest.Caller{Begin: half})
		call(100, servetest.Caller{Begin: half, Drip: strings.Repeat(" ", 100), Every: 2 * time.Second})
		time.Sleep(time.Second)
		status, text := servetest.Post(t, l, "http://x"+Path, review(t, podText))
		require.Equal(t, http.StatusOK, status, text)
		require.Contains(t, text, `"patch":`)
		all.Wait()

		huge := `{"spec":{"containers":[` + strings.Repeat("null,", maxRequestValues) + "null]}}"
		status, text = servetest.Post(t, l, "http://x"+Path, review(t, huge))
		require.Equal(t, "413 the request has more than 65536 values\n", fmt.Sprint(status, " ", text))
		cancel()
		require.NoError(t, <-ended)
	})
}

// Pods that wait for a ReplicaSet that nobody knows keep no other pod waiting.
func TestPodsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reader(t, object(t, "", ""), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"))
		hook := &webhook.Admission{Handler: &handler{objects: r, revisions: r, limit: limit}}
		ctx, cancel := context.WithCancel(t.Context())
		l, ended := servetest.Listen(), make(chan error)
		go func() { ended <- server("", hook, nil).Serve(ctx, l) }()
		begin := time.Now()
		var all sync.WaitGroup
		for range 10 * turns {
			all.Go(func() {
				_, text := servetest.Post(t, l, "http://x"+Path, review(t, strings.Replace(podText, `"uid":"r"`, `"uid":"another"`, 1)))
				require.Contains(t, text, "is not known yet")
				require.Equal(t, limit, time.Since(begin))
			})
		}
		synctest.Wait()
		_, text := servetest.Post(t, l, "http://x"+Path, review(t, podText))
		require.Contains(t, text, `"patch":`)
		require.Zero(t, time.Since(begin))
		all.Wait()
		cancel()
		require.NoError(t, <-ended)
	})
}

// Whatever is sent, no pod is refused, and what comes back is an AdmissionReview or an
// HTTP error.
func FuzzReview(f *testing.F) {
	f.Add([]byte(review(f, podText)))
	f.Add([]byte(review(f, podText))[:300])
	f.Add([]byte(review(f, "null")))
	f.Add([]byte(review(f, `{"metadata":{"ownerReferences":[{"kind":"ReplicaSet","controller":true}]},"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"-1"}}}]}}`)))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`))
	f.Add([]byte(`{"request":{"object":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := reader(t, object(t, "", ""), replicaSet(t, "web-5d4f", "1", "2026-01-01T00:00:00Z", "500m"))
		s := server("", &webhook.Admission{Handler: &handler{objects: r, revisions: r, limit: limit}}, nil)
		w := answerOf(t, s.Handler, body)
		if w.Code != http.StatusOK {
			return
		}
		var answer admissionv1.AdmissionReview
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		require.NotNil(t, answer.Response)
		var sent admissionv1.AdmissionReview
		if json.Unmarshal(body, &sent) == nil && sent.Request != nil && answer.Response.Result != nil && answer.Response.Result.Code == http.StatusOK {
			require.True(t, answer.Response.Allowed)
		}
	})
}

func answerOf(t *testing.T, h http.Handler, body []byte) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	return w
}

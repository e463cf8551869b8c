package page

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	goleak.VerifyTestMain(m)
}

// door is a guard before a page, with an API server that knows the tokens of two users.
func door(t *testing.T) (call func(header string) int, asked *int, down *bool) {
	t.Helper()
	client := fake.NewClientset()
	asked, down = new(int), new(bool)
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		*asked++
		if *down {
			return true, nil, errors.New("down")
		}
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		if name := review.Spec.Token; name == "prometheus" || name == "other" {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{
				Username: name, Groups: []string{"all"}, Extra: map[string]authenticationv1.ExtraValue{"a": {"b"}},
			}}
		}
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		spec := review.Spec
		require.Equal(t, &authorizationv1.NonResourceAttributes{Path: "/metrics", Verb: "get"}, spec.NonResourceAttributes)
		require.Equal(t, []string{"all"}, spec.Groups)
		require.Equal(t, authorizationv1.ExtraValue{"b"}, spec.Extra["a"])
		review.Status.Allowed = spec.User == "prometheus"
		return true, review, nil
	})
	g := &guard{client: client, answers: cache.NewLRUExpireCache(tokens), next: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("page"))
	})}
	return func(header string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		g.ServeHTTP(w, r)
		require.Equal(t, w.Code == http.StatusOK, w.Body.String() == "page")
		return w.Code
	}, asked, down
}

func TestMetricsNeedAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		call, asked, down := door(t)
		for header, want := range map[string]int{
			"": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized, "Basic prometheus": http.StatusUnauthorized, "prometheus": http.StatusUnauthorized,
		} {
			require.Equal(t, want, call(header), header)
		}
		require.Zero(t, *asked)
		require.Equal(t, http.StatusUnauthorized, call("Bearer made-up"))
		require.Equal(t, http.StatusForbidden, call("Bearer other"))
		require.Equal(t, http.StatusOK, call("Bearer prometheus"))
		require.Equal(t, 3, *asked)
		for range 10 {
			require.Equal(t, http.StatusForbidden, call("Bearer other"))
			require.Equal(t, http.StatusOK, call("Bearer prometheus"))
		}
		require.Equal(t, 3, *asked)

		// What was allowed holds for a while, also where the API server cannot be asked.
		*down = true
		require.Equal(t, http.StatusOK, call("Bearer prometheus"))
		require.Equal(t, http.StatusServiceUnavailable, call("Bearer new"))
		time.Sleep(allowedFor + time.Second)
		require.Equal(t, http.StatusServiceUnavailable, call("Bearer prometheus"))
		*down = false
		require.Equal(t, http.StatusOK, call("Bearer prometheus"))
	})
}

// Health says nothing of the reason.
func TestHealth(t *testing.T) {
	for want, err := range map[string]error{"ok": nil, "not ok\n": errors.New("secret of a neighbour")} {
		w := httptest.NewRecorder()
		Health(func(context.Context) error { return err }).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz?verbose", http.NoBody))
		require.Equal(t, want, w.Body.String())
		require.Equal(t, err == nil, w.Code == http.StatusOK)
	}
}

func TestPages(t *testing.T) {
	for _, tt := range []struct {
		pages         Pages
		address, want string
	}{
		{Pages{}, ":1", ""},
		{Pages{}, "1", `--x "1": want host:port or :port`},
		{Pages{CertFile: "c"}, ":1", "--tls-cert-file and --tls-private-key-file need each other"},
		{Pages{KeyFile: "c"}, ":1", "--tls-cert-file and --tls-private-key-file need each other"},
		{Pages{Plain: true}, "127.0.0.1:1", ""},
		{Pages{Plain: true}, "localhost:1", ""},
		{Pages{Plain: true}, "[::1]:1", ""},
		{Pages{Plain: true}, ":1", "--x :1 with --metrics-plain-http: only a loopback address is served in plain HTTP"},
		{Pages{Plain: true}, "example.org:1", "--x example.org:1 with --metrics-plain-http"},
	} {
		err := tt.pages.Validate("--x", tt.address)
		if tt.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, tt.want)
		}
	}
	s, err := (&Pages{}).Server(":1", nil)
	require.NoError(t, err)
	require.Len(t, s.TLS.Certificates, 1, "never in plain HTTP unless asked for")
	_, err = (&Pages{CertFile: "missing", KeyFile: "missing"}).Server(":1", nil)
	require.ErrorContains(t, err, "missing")
}

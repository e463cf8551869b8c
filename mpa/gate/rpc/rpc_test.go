package rpc

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/sigma-scheduler/sigma/mpa/gate"
)

type server struct {
	grpc_health_v1.UnimplementedHealthServer
	begun, end chan struct{}
}

func (s *server) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	switch r.Service {
	case "wait":
		s.begun <- struct{}{}
		<-s.end
	case "none":
		return nil, status.Error(codes.NotFound, "none")
	case "broken":
		return nil, status.Error(codes.Internal, "broken")
	}
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

func (s *server) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	return stream.Send(&grpc_health_v1.HealthCheckResponse{})
}

func TestInterceptors(t *testing.T) {
	g, err := gate.New(gate.Options{Limit: 1})
	require.NoError(t, err)
	s := &server{begun: make(chan struct{}), end: make(chan struct{})}
	at := grpc.NewServer(grpc.UnaryInterceptor(Unary(g)), grpc.StreamInterceptor(Stream(g)))
	grpc_health_v1.RegisterHealthServer(at, s)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = at.Serve(listener) }()
	defer at.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	client := grpc_health_v1.NewHealthClient(conn)
	check := func(service string) codes.Code {
		_, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		return status.Code(err)
	}
	first := make(chan codes.Code, 1)
	go func() { first <- check("wait") }()
	<-s.begun
	assert.Equal(t, codes.Unavailable, check(""), "the pod is full")
	s.end <- struct{}{}
	assert.Equal(t, codes.OK, <-first)
	assert.Equal(t, codes.NotFound, check("none"))
	assert.Equal(t, codes.Internal, check("broken"))
	stream, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Error(t, err, "the stream has ended")
	inside, _, totals := g.Now()
	totals.Busy = 0
	assert.Zero(t, inside)
	assert.Equal(t, gate.Totals{Answered: 3, Failed: 1, Full: 1}, totals)
}

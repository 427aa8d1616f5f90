#pragma once

/// \file
/// The bodies of reef/swarm/ but swarm/elastic/, which need Boost.Asio, Boost.Beast and OpenSSL: for one file of a
/// program that links reef::swarm, beside one that has core_implementation.hpp or implementation.hpp.

#ifndef REEF_COMPILED
#error "reef/swarm_implementation.hpp: this file is compiled without -DREEF_COMPILED, which says that bodies \
are elsewhere. fix: that flag for every file of the program, this one too; or, without this header, for none."
#else

#include <reef/swarm/average/averaging_peer.ipp>
#include <reef/swarm/average/dense_parts.ipp>
#include <reef/swarm/average/detail/keepers.ipp>
#include <reef/swarm/average/detail/own_contributions.ipp>
#include <reef/swarm/average/detail/own_states.ipp>
#include <reef/swarm/average/detail/peer_account.ipp>
#include <reef/swarm/average/detail/peer_frames.ipp>
#include <reef/swarm/average/detail/round_watch.ipp>
#include <reef/swarm/average/detail/shard_frames.ipp>
#include <reef/swarm/average/detail/shard_server.ipp>
#include <reef/swarm/average/part_codec.ipp>
#include <reef/swarm/average/peer_report.ipp>
#include <reef/swarm/average/shard_fetch.ipp>
#include <reef/swarm/average/shard_files.ipp>
#include <reef/swarm/average/shard_list.ipp>
#include <reef/swarm/client/row_sessions.ipp>
#include <reef/swarm/core/chain_watch.ipp>
#include <reef/swarm/core/detail/asking.ipp>
#include <reef/swarm/core/detail/checkpoint_duty.ipp>
#include <reef/swarm/core/detail/duty.ipp>
#include <reef/swarm/core/detail/listening.ipp>
#include <reef/swarm/core/detail/room.ipp>
#include <reef/swarm/core/detail/round_duty.ipp>
#include <reef/swarm/core/detail/session_hop.ipp>
#include <reef/swarm/core/detail/simulated_run.ipp>
#include <reef/swarm/core/detail/view_duty.ipp>
#include <reef/swarm/core/digest.ipp>
#include <reef/swarm/core/entry_json.ipp>
#include <reef/swarm/core/failure_detector.ipp>
#include <reef/swarm/core/fault_plan.ipp>
#include <reef/swarm/core/index_runs.ipp>
#include <reef/swarm/core/job_report.ipp>
#include <reef/swarm/core/job_state.ipp>
#include <reef/swarm/core/job_summary.ipp>
#include <reef/swarm/core/ledger.ipp>
#include <reef/swarm/core/membership.ipp>
#include <reef/swarm/core/peer.ipp>
#include <reef/swarm/core/pieces.ipp>
#include <reef/swarm/core/round.ipp>
#include <reef/swarm/core/round_trips.ipp>
#include <reef/swarm/core/served_session.ipp>
#include <reef/swarm/core/server_bans.ipp>
#include <reef/swarm/core/session_client.ipp>
#include <reef/swarm/core/session_message.ipp>
#include <reef/swarm/core/session_route.ipp>
#include <reef/swarm/core/session_router.ipp>
#include <reef/swarm/core/session_server.ipp>
#include <reef/swarm/core/session_wire.ipp>
#include <reef/swarm/core/simulation.ipp>
#include <reef/swarm/log/blocking_log.ipp>
#include <reef/swarm/log/chained_log.ipp>
#include <reef/swarm/log/decision_log.ipp>
#include <reef/swarm/log/detail/announced_presence.ipp>
#include <reef/swarm/log/detail/append_gate.ipp>
#include <reef/swarm/log/detail/asio_stream.ipp>
#include <reef/swarm/log/detail/base64.ipp>
#include <reef/swarm/log/detail/end_signals.ipp>
#include <reef/swarm/log/detail/envelope_signer.ipp>
#include <reef/swarm/log/detail/http_address.ipp>
#include <reef/swarm/log/detail/http_client.ipp>
#include <reef/swarm/log/detail/log_cutter.ipp>
#include <reef/swarm/log/detail/log_file.ipp>
#include <reef/swarm/log/detail/log_rules.ipp>
#include <reef/swarm/log/detail/own_process.ipp>
#include <reef/swarm/log/detail/presence_table.ipp>
#include <reef/swarm/log/envelope.ipp>
#include <reef/swarm/log/etcd_log.ipp>
#include <reef/swarm/log/keeper.ipp>
#include <reef/swarm/log/local_log.ipp>
#include <reef/swarm/log/log_server.ipp>
#include <reef/swarm/log/presence.ipp>
#include <reef/swarm/log/remote_log.ipp>
#include <reef/swarm/log/simulated_log.ipp>
#include <reef/swarm/net/detail/connection.ipp>
#include <reef/swarm/net/detail/dialer.ipp>
#include <reef/swarm/net/detail/hello.ipp>
#include <reef/swarm/net/detail/host_and_port.ipp>
#include <reef/swarm/net/detail/loop.ipp>
#include <reef/swarm/net/detail/tls.ipp>
#include <reef/swarm/net/detail/tls_signer.ipp>
#include <reef/swarm/net/endpoint.ipp>
#include <reef/swarm/net/frame.ipp>
#include <reef/swarm/net/identity.ipp>
#include <reef/swarm/net/keys.ipp>
#include <reef/swarm/net/sha256.ipp>
#include <reef/swarm/net/text_page.ipp>
#include <reef/swarm/serve/block_server.ipp>
#include <reef/swarm/serve/detail/session_link.ipp>
#include <reef/swarm/serve/model_digest.ipp>
#include <reef/swarm/serve/served_span.ipp>

#endif

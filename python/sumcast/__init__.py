"""Sumcast as a backend of torch.distributed.

    import torch.distributed as dist
    dist.init_process_group("sumcast")

Importing this package registers the backend; having it installed is enough, since torch finds it by
its entry point. The extension itself is loaded by the first process group.
"""

import torch.distributed as _dist

__all__ = ["register"]


def _create(options, backend_options):
    from sumcast import _meeting

    return _meeting.create_backend(options, backend_options)


def register():
    """Makes the name "sumcast" known to torch.distributed. Any number of times."""
    if not _dist.is_available() or "SUMCAST" in _dist.Backend._plugins:
        return
    _dist.Backend.register_backend("sumcast", _create, extended_api=True, devices=["cpu"])


register()

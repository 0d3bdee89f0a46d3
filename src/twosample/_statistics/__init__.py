"""Statistics: one number for one labelling of the pooled points."""

from .base import Bins as Bins
from .base import Law as Law
from .base import Prepared as Prepared
from .base import Statistic as Statistic
from .block import BlockMMD as BlockMMD
from .compressed import CompressedMMD as CompressedMMD
from .fused import Fused as Fused
from .fused import Fusing as Fusing
from .fused import SmallestRank as SmallestRank
from .fused import SoftMaximum as SoftMaximum
from .fused import Surprise as Surprise
from .hotelling import HotellingT2 as HotellingT2
from .mmd import MMD as MMD
from .mmd import Alternative as Alternative
from .planting import Planted as Planted
from .spectral import Spectral as Spectral
